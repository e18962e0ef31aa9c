// The shared memory of the other blocks of a cluster.
#pragma once

#include "machine/cluster_address.cuh"
#include "ptx/memory.cuh"

namespace fa2::ptx {

FA2_DEVICE ClusterAddress mapa(SharedAddress address, u32 rank, Site site = {}) {
  return {machine->mapa(address, rank, site)};
}

FA2_DEVICE u32 ld_cluster_u32(ClusterAddress address, Site site = {}) {
  u32 value;
  machine->load_cluster(address.value, &value, 4, site);
  return value;
}

FA2_DEVICE void st_cluster_u32(ClusterAddress address, u32 value, Site site = {}) {
  machine->store_cluster(address.value, &value, 4, site);
}

FA2_DEVICE Vector16 ld_cluster_v4(ClusterAddress address, Site site = {}) {
  Vector16 v;
  machine->load_cluster(address.value, &v, 16, site);
  return v;
}

FA2_DEVICE void st_cluster_v4(ClusterAddress address, const Vector16& v, Site site = {}) {
  machine->store_cluster(address.value, &v, 16, site);
}

FA2_DEVICE void mbarrier_arrive_cluster(ClusterAddress mbarrier, Site site = {}) {
  machine->mbarrier_arrive_cluster(mbarrier.value, site);
}

FA2_DEVICE void mbarrier_wait_cluster(SharedAddress mbarrier, u32 parity, Site site = {}) {
  machine->mbarrier_wait(mbarrier, parity, true, site);
}

/// The interpreter takes it for an arrival that shows writes too.
FA2_DEVICE void mbarrier_arrive_after_reads(ClusterAddress mbarrier, Site site = {}) {
  machine->mbarrier_arrive_cluster(mbarrier.value, site);
}

FA2_DEVICE void mbarrier_wait_copies(SharedAddress mbarrier, u32 parity, Site site = {}) {
  machine->mbarrier_wait(mbarrier, parity, true, site);
}

FA2_DEVICE void bulk_copy_cluster(ClusterAddress destination, SharedAddress source, int bytes,
                                  ClusterAddress mbarrier, Site site = {}) {
  machine->bulk_copy_cluster(destination.value, source, bytes, mbarrier.value, site);
}

}  // namespace fa2::ptx
