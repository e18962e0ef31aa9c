// mbarriers: barriers in shared memory that count arrivals and the bytes of asynchronous copies (sm_90).
#pragma once

#include "ptx/registers.cuh"

namespace fa2::ptx {

/// mbarrier.init: 8 aligned bytes of shared memory become an mbarrier in phase 0. A phase is complete after
/// `arrivals` arrivals, once every byte that was expected in it has come. By one thread, before a
/// fence_mbarrier_init() and a barrier.
FA2_DEVICE void mbarrier_init(SharedAddress mbarrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(mbarrier), "r"(arrivals) : "memory");
}

/// fence.mbarrier_init: shows this thread's initialisations to asynchronous copies.
FA2_DEVICE void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// mbarrier.arrive: what this thread did before is seen by whoever waits for the phase.
FA2_DEVICE void mbarrier_arrive(SharedAddress mbarrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(mbarrier) : "memory");
}

/// The same, and the phase expects `bytes` more from asynchronous copies. Before these are issued.
FA2_DEVICE void mbarrier_arrive_expect_tx(SharedAddress mbarrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mbarrier), "r"(bytes)
               : "memory");
}

/// mbarrier.try_wait.parity until the last phase of that parity (0 or 1) is complete. On a fresh mbarrier 1
/// passes at once: phase n of a ring is waited for with n & 1, the slot's previous reader with (n & 1) ^ 1.
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
