// The Compiler that is the machine's own C++ compiler: rendered source to a shared object for the
// interpreter.
#pragma once

#include <runtime/compiler.h>

#include <memory>

namespace fa2::interpreter {

/// $FA2_CXX, else c++, g++ or clang++ of the PATH, looked for at the first compile(). FA2_KEEP_SOURCE=DIR
/// leaves the sources in DIR/<key>, where a debugger finds them; else nothing is left, whether it compiled or
/// not. A compiler that a signal killed is Unavailable: it said nothing about the source.
std::unique_ptr<Compiler> make_host_compiler();

}  // namespace fa2::interpreter
