// Loads by the tensor memory accelerator for several blocks of a cluster (sm_90).
#pragma once

#include "ptx/tma.cuh"

namespace fa2::ptx {

/// Like tma_load(), for every block of the cluster whose bit is set in `blocks` (bit 0: rank 0): each receives the whole
/// box at the address `destination` in its own shared memory, and the bytes count on its own mbarrier at the address
/// `mbarrier`. This block must know that each of them has begun, and that its threads have read what lay there.
FA2_DEVICE void tma_load_multicast(SharedAddress destination, const TensorMap& map, TensorCoordinates box,
                                   SharedAddress mbarrier, u16 blocks, u64 eviction = kEvictNormal) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::"
      "cache_hint "
      "[%0], [%1, {%4, %5, %6, %7, %8}], [%2], %3, %9;" ::"r"(destination),
      "l"(&map), "r"(mbarrier), "h"(blocks), "r"(box.at[0]), "r"(box.at[1]), "r"(box.at[2]), "r"(box.at[3]),
      "r"(box.at[4]), "l"(eviction)
      : "memory");
}

}  // namespace fa2::ptx
