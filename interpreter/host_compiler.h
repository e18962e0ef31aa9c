// The Compiler that is the machine's own C++ compiler: rendered source to a shared object for the
// interpreter.
#pragma once

#include <runtime/compiler.h>

#include <memory>

namespace fa2::interpreter {

/// $FA2_CXX, else c++, g++ or clang++ of the PATH, looked for at the first compile(). FA2_KEEP_SOURCE=DIR
/// leaves sources and log in DIR/<key>, where a debugger finds them; else nothing is left, whether it compiled or
/// not, and lines are those of the repository's files. Nothing is loaded from DIR. Ctrl-C does not reach the compiler: it has a
/// process group of its own, which ends if the program's function wants an interrupt (runtime/interrupt.h).
/// @throws Interrupted also if somebody killed the compiler; Unavailable if it crashed; CacheError if DIR is not fit.
std::unique_ptr<Compiler> make_host_compiler();

}  // namespace fa2::interpreter
