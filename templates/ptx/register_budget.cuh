// Moving registers from one warpgroup to another (sm_90a).
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

/// setmaxnreg.dec: every warp of a warpgroup gives back its registers beyond `kRegisters` a thread.
template <int kRegisters>
FA2_DEVICE void setmaxnreg_dec() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256, "24, 32, ... 256");
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// setmaxnreg.inc: waits until other warpgroups have given back enough. The sum over the block must fit what
/// it was launched with: (registers per thread) * threads, not the SM's 65536.
template <int kRegisters>
FA2_DEVICE void setmaxnreg_inc() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256, "24, 32, ... 256");
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace fa2::ptx
