// CUDA keywords for a host compiler, and the machine that runs the calling thread.
#pragma once

#include "machine.cuh"
#include "machine/types.cuh"

#define FA2_DEVICE inline
#define FA2_UNROLL
#define FA2_NO_UNROLL
#define FA2_UNROLL_BY(count)
#define FA2_EXPORTED extern "C" __attribute__((visibility("default")))
/// Once per translation unit.
#define FA2_KERNEL(threads, ctas_per_sm)           \
  FA2_EXPORTED int fa2_interpreter_ctas_per_sm() { \
    return ctas_per_sm;                            \
  }                                                \
  FA2_EXPORTED void
#define FA2_KERNEL_PARAMETER(Type) const Type&

namespace fa2::ptx {

using interpreter::Machine;
using interpreter::Site;

/// The block of the running fiber. The threads of a cluster are fibers, which stay on this host thread.
inline thread_local Machine* machine = nullptr;

}  // namespace fa2::ptx

/// The interpreter calls it. `used` keeps the compiler from dropping an inline function without callers.
extern "C" __attribute__((visibility("default"), used)) inline void fa2_interpreter_attach(
    fa2::interpreter::Machine* machine) {
  fa2::ptx::machine = machine;
}
