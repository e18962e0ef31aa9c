// Words of global memory by which blocks wait for one another.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

/// st.release: what happened before it happens before what follows the wait that sees it.
FA2_DEVICE void st_release_global_u32(u32* flag, u32 value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

/// ld.acquire until the word is `value`. Only for what a block with a lower index writes, which has begun by then: a block
/// that has not might need this one's place.
FA2_DEVICE void await_global_u32(const u32* flag, u32 value) {
  u32 seen;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
  } while (seen != value);
}

}  // namespace fa2::ptx
