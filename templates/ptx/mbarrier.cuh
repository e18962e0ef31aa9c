// mbarriers: barriers in shared memory that count arrivals and bytes of asynchronous copies (sm_90).
#pragma once

#include "ptx/registers.cuh"

namespace fa2::ptx {

/// mbarrier.init: turns 8 aligned bytes of shared memory into an mbarrier in phase 0. A phase completes after
/// `arrivals` arrivals, once all bytes that it expects have come. One thread must call it, then
/// fence_mbarrier_init(), then a barrier must follow.
FA2_DEVICE void mbarrier_init(SharedAddress mbarrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(mbarrier), "r"(arrivals) : "memory");
}

/// fence.mbarrier_init: makes this thread's initialisations visible to asynchronous copies.
FA2_DEVICE void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// mbarrier.arrive: makes what this thread did before visible to threads that wait for the phase.
FA2_DEVICE void mbarrier_arrive(SharedAddress mbarrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(mbarrier) : "memory");
}

/// Like mbarrier_arrive(); the phase also expects `bytes` more from asynchronous copies. It must precede
/// their issue.
FA2_DEVICE void mbarrier_arrive_expect_tx(SharedAddress mbarrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mbarrier), "r"(bytes)
               : "memory");
}

/// mbarrier.try_wait.parity: waits until the last phase with this parity (0 or 1) is complete. On a new
/// mbarrier, parity 1 passes at once. So phase n of a ring is awaited with n & 1, and the slot's previous
/// reader with (n & 1) ^ 1.
FA2_DEVICE void mbarrier_wait(SharedAddress mbarrier, u32 parity) {
  asm volatile(
      "{\n  .reg .pred done;\n"
      "AGAIN%=:\n  mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n  @done bra DONE%=;\n  bra "
      "AGAIN%=;\n"
      "DONE%=:\n}" ::"r"(mbarrier),
      "r"(parity)
      : "memory");
}

}  // namespace fa2::ptx
