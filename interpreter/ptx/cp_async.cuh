// Asynchronous copies from global to shared memory.
#pragma once

#include "ptx/registers.cuh"

namespace fa2::ptx {

FA2_DEVICE void cp_async_16(SharedAddress destination, const void* source, Site site = {}) {
  machine->cp_async(destination, source, 16, 16, site);
}

FA2_DEVICE void cp_async_16_zfill(SharedAddress destination, const void* source, int source_bytes,
                                  Site site = {}) {
  machine->cp_async(destination, source, 16, source_bytes, site);
}

FA2_DEVICE void cp_async_4_zfill(SharedAddress destination, const void* source, int source_bytes,
                                 Site site = {}) {
  machine->cp_async(destination, source, 4, source_bytes, site);
}

FA2_DEVICE void cp_async_commit_group() {
  machine->cp_async_commit_group();
}

template <int kPending>
FA2_DEVICE void cp_async_wait_group() {
  machine->cp_async_wait_group(kPending);
}

FA2_DEVICE void cp_async_mbarrier_arrive(SharedAddress mbarrier, Site site = {}) {
  machine->cp_async_mbarrier_arrive(mbarrier, site);
}

}  // namespace fa2::ptx
