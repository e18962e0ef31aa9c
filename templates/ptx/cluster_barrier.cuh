// The barrier of all threads of a cluster (sm_90).
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

/// barrier.cluster.arrive: what this thread did before happens before what follows any thread's wait. Every thread
/// of the cluster must call it as often as all others, and barrier_cluster_wait() after it, with all lanes of its
/// warp.
FA2_DEVICE void barrier_cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

/// barrier.cluster.wait: waits until all threads of the cluster have arrived.
FA2_DEVICE void barrier_cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

}  // namespace fa2::ptx
