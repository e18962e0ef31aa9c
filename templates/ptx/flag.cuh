// Words in global memory with which blocks wait for one another.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

/// st.release: what precedes it happens before what follows the wait that reads `value`.
FA2_DEVICE void st_release_global_u32(u32* flag, u32 value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

/// ld.acquire: waits until the word is `value`. A block with a lower index must write it, because that one
/// has already started. A block that has not started might need this block's SM.
FA2_DEVICE void await_global_u32(const u32* flag, u32 value) {
  u32 seen;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
  } while (seen != value);
}

}  // namespace fa2::ptx
