// mbarriers: barriers in shared memory that count arrivals and bytes of asynchronous copies.
#pragma once

#include "ptx/registers.cuh"

namespace fa2::ptx {

FA2_DEVICE void mbarrier_init(SharedAddress mbarrier, int arrivals, Site site = {}) {
  machine->mbarrier_init(mbarrier, arrivals, site);
}

FA2_DEVICE void fence_mbarrier_init() {
  machine->fence_mbarrier_init();
}

FA2_DEVICE void mbarrier_arrive(SharedAddress mbarrier, Site site = {}) {
  machine->mbarrier_arrive(mbarrier, 0, site);
}

FA2_DEVICE void mbarrier_arrive_expect_tx(SharedAddress mbarrier, int bytes, Site site = {}) {
  machine->mbarrier_arrive(mbarrier, bytes, site);
}

FA2_DEVICE void mbarrier_wait(SharedAddress mbarrier, u32 parity, Site site = {}) {
  machine->mbarrier_wait(mbarrier, parity, false, site);
}

}  // namespace fa2::ptx
