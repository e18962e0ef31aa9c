// Bulk copies between global and shared memory by the tensor memory accelerator.
#pragma once

#include "machine/tensor_map.cuh"
#include "ptx/registers.cuh"

namespace fa2::ptx {

struct TensorCoordinates {
  int at[5];
};

constexpr u64 kEvictNormal = 0x1000000000000000ull;
constexpr u64 kEvictFirst = 0x12f0000000000000ull;
constexpr u64 kEvictLast = 0x14f0000000000000ull;

FA2_DEVICE void prefetch_tensor_map(const TensorMap&) {}

FA2_DEVICE void tma_load(SharedAddress destination, const TensorMap& map, TensorCoordinates box,
                         SharedAddress mbarrier, u64 = kEvictNormal, Site site = {}) {
  machine->tensor_load(destination, map, box.at, mbarrier, site);
}

FA2_DEVICE void bulk_load(SharedAddress destination, const void* source, int bytes, SharedAddress mbarrier,
                          Site site = {}) {
  machine->bulk_load(destination, source, bytes, mbarrier, site);
}

FA2_DEVICE void tma_store(const TensorMap& map, TensorCoordinates box, SharedAddress source, Site site = {}) {
  machine->tensor_store(map, box.at, source, site);
}

FA2_DEVICE void bulk_reduce_add_f32(float* destination, SharedAddress source, int bytes, Site site = {}) {
  machine->bulk_reduce_add(destination, source, bytes, site);
}

FA2_DEVICE void bulk_commit_group() {
  machine->bulk_commit_group();
}

template <int kPending>
FA2_DEVICE void bulk_wait_group_read() {
  machine->bulk_wait_group(kPending, true);
}

template <int kPending>
FA2_DEVICE void bulk_wait_group() {
  machine->bulk_wait_group(kPending, false);
}

}  // namespace fa2::ptx
