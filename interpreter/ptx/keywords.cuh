// The keywords as a host compiler knows them, and the machine that runs the calling thread.
#pragma once

#include "machine.cuh"
#include "machine/types.cuh"

#define FA2_DEVICE inline
#define FA2_UNROLL
#define FA2_UNROLL_BY_4
#define FA2_NO_UNROLL
#define FA2_EXPORTED extern "C" __attribute__((visibility("default")))
/// One a translation unit.
#define FA2_KERNEL(threads, ctas_per_sm)           \
  FA2_EXPORTED int fa2_interpreter_ctas_per_sm() { \
    return ctas_per_sm;                            \
  }                                                \
  FA2_EXPORTED void
#define FA2_KERNEL_PARAMETER(Type) const Type&

namespace fa2::ptx {

using interpreter::Machine;
using interpreter::Site;

/// The block that this host thread runs. Its threads are fibers that never leave the host thread.
inline thread_local Machine* machine = nullptr;

}  // namespace fa2::ptx

/// Called by the interpreter. `used`: an inline function that nobody calls would be left out.
extern "C" __attribute__((visibility("default"), used)) inline void fa2_interpreter_attach(
    fa2::interpreter::Machine* machine) {
  fa2::ptx::machine = machine;
}
