// The barrier of all threads of a cluster.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

FA2_DEVICE void barrier_cluster_arrive(Site site = {}) {
  const auto arrive = [](Machine& block, int first, void* const*, Site at) {
    block.barrier_cluster_arrive(first, at);
  };
  machine->warp_wide("barrier.cluster.arrive", arrive, nullptr, false, site);
}

FA2_DEVICE void barrier_cluster_wait(Site site = {}) {
  machine->warp_wide(
      "barrier.cluster.wait", [](Machine&, int, void* const*, Site) {}, nullptr, false, site);
  machine->barrier_cluster_wait(site);
}

}  // namespace fa2::ptx
