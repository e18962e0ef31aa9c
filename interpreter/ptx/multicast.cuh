// Bulk loads for several blocks of a cluster.
#pragma once

#include "ptx/tma.cuh"

namespace fa2::ptx {

FA2_DEVICE void tma_load_multicast(SharedAddress destination, const TensorMap& map, TensorCoordinates box,
                                   SharedAddress mbarrier, u16 blocks, u64 = kEvictNormal, Site site = {}) {
  machine->tensor_load_multicast(destination, map, box.at, mbarrier, blocks, site);
}

}  // namespace fa2::ptx
