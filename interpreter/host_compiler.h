// The Compiler that uses the machine's C++ compiler: it turns rendered source into a shared object for the
// interpreter.
#pragma once

#include <runtime/compiler.h>

#include <memory>

namespace fa2::interpreter {

/// Returns a compiler that uses $FA2_CXX, else c++, g++ or clang++ from the PATH, looked up at the first
/// compile().
///
/// FA2_KEEP_SOURCE=DIR leaves sources and log in DIR/<key>, where a debugger finds them; nothing is loaded
/// from DIR. Without it nothing is left, and lines refer to the repository's files. Ctrl-C does not reach the
/// compiler, because it has a process group of its own. The group ends if the program's function requests an
/// interrupt (runtime/interrupt.h).
/// @throws Interrupted also if a user or the system killed the compiler; Unavailable if it crashed;
/// CacheError if DIR cannot be used.
std::unique_ptr<Compiler> make_host_compiler();

}  // namespace fa2::interpreter
