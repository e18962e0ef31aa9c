// Transfer of registers between warpgroups (sm_90a).
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

/// setmaxnreg.dec: returns the warp's registers beyond `kRegisters` per thread. Every warp of a warpgroup
/// must call it.
template <int kRegisters>
FA2_DEVICE void setmaxnreg_dec() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256, "24, 32, ... 256");
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// setmaxnreg.inc: waits until other warpgroups have returned enough registers. The block's total must not
/// exceed (registers per thread at launch) * threads, which may be less than the SM's 65536.
template <int kRegisters>
FA2_DEVICE void setmaxnreg_inc() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256, "24, 32, ... 256");
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace fa2::ptx
