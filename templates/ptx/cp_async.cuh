// Asynchronous copies from global to shared memory (sm_80).
#pragma once

#include "ptx/registers.cuh"

namespace fa2::ptx {

/// cp.async.cg: copies 16 bytes, bypassing L1. Both addresses must be 16-byte aligned.
FA2_DEVICE void cp_async_16(SharedAddress destination, const void* source) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(destination), "l"(source)
               : "memory");
}

/// Like cp_async_16(), but reads only the first `source_bytes` (0 or 16) and fills the rest with zeros.
FA2_DEVICE void cp_async_16_zfill(SharedAddress destination, const void* source, int source_bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(destination), "l"(source),
               "r"(source_bytes)
               : "memory");
}

/// cp.async.ca: copies 4 bytes, or writes zeros if `source_bytes` is 0. Both addresses must be 4-byte
/// aligned.
FA2_DEVICE void cp_async_4_zfill(SharedAddress destination, const void* source, int source_bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(destination), "l"(source),
               "r"(source_bytes)
               : "memory");
}

FA2_DEVICE void cp_async_commit_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until at most `kPending` of this thread's newest groups are incomplete.
template <int kPending>
FA2_DEVICE void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// cp.async.mbarrier.arrive.noinc (sm_90): arrives at the mbarrier once all copies that this thread has issued
/// are complete. Threads that wait for the phase may then read what was copied, in the generic proxy; before
/// wgmma reads it, they must call fence_proxy_async_shared().
FA2_DEVICE void cp_async_mbarrier_arrive(SharedAddress mbarrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(mbarrier) : "memory");
}

}  // namespace fa2::ptx
