// Bulk copies between global and shared memory by the tensor memory accelerator (sm_90). One thread issues a
// copy for the block.
#pragma once

#include "machine/tensor_map.cuh"
#include "ptx/registers.cuh"

namespace fa2::ptx {

/// Coordinates of a box's first element, fastest dimension first. They may lie outside the tensor, and for
/// loads below 0. The first one must be a multiple of 16 bytes. On an H100, a store below 0 or a row cut
/// elsewhere is an illegal instruction; the PTX ISA mentions neither.
struct TensorCoordinates {
  int at[5];
};

/// L2 eviction hints, for data that is read once or again.
constexpr u64 kEvictNormal = 0x1000000000000000ull;
constexpr u64 kEvictFirst = 0x12f0000000000000ull;
constexpr u64 kEvictLast = 0x14f0000000000000ull;

FA2_DEVICE void prefetch_tensor_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// cp.async.bulk.tensor.5d, global to shared: loads a whole box; elements outside the tensor become zeros.
/// Every byte of the box counts on `mbarrier`. `destination` must be aligned to 8 spans of the map's swizzle,
/// or 128 bytes without one.
FA2_DEVICE void tma_load(SharedAddress destination, const TensorMap& map, TensorCoordinates box,
                         SharedAddress mbarrier, u64 eviction = kEvictNormal) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(destination),
      "l"(&map), "r"(mbarrier), "r"(box.at[0]), "r"(box.at[1]), "r"(box.at[2]), "r"(box.at[3]),
      "r"(box.at[4]), "l"(eviction)
      : "memory");
}

/// cp.async.bulk, global to shared: loads `bytes` bytes. `bytes` and both addresses must be multiples of 16.
FA2_DEVICE void bulk_load(SharedAddress destination, const void* source, int bytes, SharedAddress mbarrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          destination),
      "l"(source), "r"(bytes), "r"(mbarrier)
      : "memory");
}

/// cp.async.bulk.tensor.5d, shared to global: stores a box in the thread's open bulk group. Elements outside
/// the tensor are left out.
FA2_DEVICE void tma_store(const TensorMap& map, TensorCoordinates box, SharedAddress source) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(&map),
      "r"(source), "r"(box.at[0]), "r"(box.at[1]), "r"(box.at[2]), "r"(box.at[3]), "r"(box.at[4])
      : "memory");
}

/// cp.reduce.async.bulk.add: adds float32 values from shared memory to those at `destination`, each
/// atomically, in any order. `bytes` and both addresses must be multiples of 16.
FA2_DEVICE void bulk_reduce_add_f32(float* destination, SharedAddress source, int bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(destination),
      "r"(source), "r"(bytes)
      : "memory");
}

FA2_DEVICE void bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// Waits until at most `kPending` of this thread's newest bulk groups still read shared memory.
template <int kPending>
FA2_DEVICE void bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

/// Waits until at most `kPending` of this thread's newest bulk groups are incomplete.
template <int kPending>
FA2_DEVICE void bulk_wait_group() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace fa2::ptx
