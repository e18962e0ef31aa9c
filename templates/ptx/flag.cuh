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

/// As both, between the GPUs of a host, and with copy engines.
FA2_DEVICE void st_release_system_u32(u32* flag, u32 value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}
FA2_DEVICE void await_system_u32(const u32* flag, u32 value) {
  u32 seen;
  do {
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
  } while (seen != value);
}

/// atom.add with acquire and release: returns the old value. What precedes one call happens before what follows
/// each later call, and each poll that reads its sum.
FA2_DEVICE u32 atom_add_acq_rel_global_u32(u32* flag, u32 value) {
  u32 old;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(flag), "r"(value)
               : "memory");
  return old;
}

/// ld.acquire: returns whether the word's bits in `mask` become `value` within `tries` loads. Any block may
/// write them, because the wait ends.
FA2_DEVICE bool poll_global_u32(const u32* flag, u32 mask, u32 value, int tries) {
  for (int i = 0; i < tries; ++i) {
    u32 seen;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    if ((seen & mask) == value) return true;
  }
  return false;
}

}  // namespace fa2::ptx
