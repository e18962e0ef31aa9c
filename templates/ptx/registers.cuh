// Special registers and the block's dynamic shared memory.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

/// A byte address in the shared state space.
using SharedAddress = u32;

FA2_DEVICE int thread_index() {
  return static_cast<int>(threadIdx.x);
}
FA2_DEVICE u32 block_index() {
  return blockIdx.x;
}
FA2_DEVICE int lane_index() {
  return static_cast<int>(threadIdx.x & 31u);
}

/// The warp's number in its block, the same value in every lane and known to the compiler to be so: by a shuffle, for which
/// all lanes of the warp come.
FA2_DEVICE int warp_index() {
  return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x >> 5), 0);
}

/// The number of the four warps that work together in wgmma; as uniform as warp_index().
FA2_DEVICE int warpgroup_index() {
  return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x >> 7), 0);
}

/// Start of the block's dynamic shared memory, 1024-byte aligned.
FA2_DEVICE SharedAddress dynamic_shared() {
  extern __shared__ __align__(1024) unsigned char bytes[];
  return static_cast<SharedAddress>(__cvta_generic_to_shared(bytes));
}

}  // namespace fa2::ptx
