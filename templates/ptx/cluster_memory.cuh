// The shared memory of the other blocks of a cluster (sm_90).
//
// A block's shared memory exists while the block runs. So a block must know that the other one has begun, by
// barrier_cluster_arrive() and _wait(), before it touches its memory, and no block may end before it has waited for
// everything that others do to its memory.
#pragma once

#include "machine/cluster_address.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"

namespace fa2::ptx {

/// mapa: returns where `address` of this block is in the block with the rank `rank`.
FA2_DEVICE ClusterAddress mapa(SharedAddress address, u32 rank) {
  ClusterAddress mapped;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped.value) : "r"(address), "r"(rank));
  return mapped;
}

FA2_DEVICE u32 ld_cluster_u32(ClusterAddress address) {
  u32 value;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(address.value) : "memory");
  return value;
}

FA2_DEVICE void st_cluster_u32(ClusterAddress address, u32 value) {
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(address.value), "r"(value) : "memory");
}

FA2_DEVICE Vector16 ld_cluster_v4(ClusterAddress address) {
  Vector16 v;
  asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "r"(address.value)
               : "memory");
  return v;
}

FA2_DEVICE void st_cluster_v4(ClusterAddress address, const Vector16& v) {
  asm volatile("st.shared::cluster.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address.value), "r"(v.word[0]),
               "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3])
               : "memory");
}

/// mbarrier.arrive at another block's mbarrier: makes what this thread did before visible to threads that wait for
/// the phase with mbarrier_wait_cluster().
FA2_DEVICE void mbarrier_arrive_cluster(ClusterAddress mbarrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(mbarrier.value)
               : "memory");
}

/// Like mbarrier_wait(), for an mbarrier of this block at which other blocks arrive, or to which they copy.
FA2_DEVICE void mbarrier_wait_cluster(SharedAddress mbarrier, u32 parity) {
  asm volatile(
      "{\n  .reg .pred done;\n"
      "AGAIN%=:\n  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "  @done bra DONE%=;\n  bra AGAIN%=;\n"
      "DONE%=:\n}" ::"r"(mbarrier),
      "r"(parity)
      : "memory");
}

/// mbarrier.arrive at another block's mbarrier by a thread that has only read: what it wrote need not be visible to
/// those that wait. So no fence is compiled, which takes as long as a read from memory.
FA2_DEVICE void mbarrier_arrive_after_reads(ClusterAddress mbarrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(mbarrier.value) : "memory");
}

/// Like mbarrier_wait_cluster(), if other blocks do nothing but copy and mbarrier_arrive_after_reads(): keeps the L1
/// cache.
FA2_DEVICE void mbarrier_wait_copies(SharedAddress mbarrier, u32 parity) {
  mbarrier_wait(mbarrier, parity);
}

/// cp.async.bulk, shared to shared: copies `bytes` bytes to another block, where they count on `mbarrier` of that
/// block. `bytes` and both addresses must be multiples of 16. Illegal in a launch without clusters. Plain stores to the
/// source need fence_proxy_async_shared(). The source may be overwritten once this block knows, by an arrival or a
/// barrier, that the other one has waited for the mbarrier.
FA2_DEVICE void bulk_copy_cluster(ClusterAddress destination, SharedAddress source, int bytes,
                                  ClusterAddress mbarrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          destination.value),
      "r"(source), "r"(bytes), "r"(mbarrier.value)
      : "memory");
}

}  // namespace fa2::ptx
