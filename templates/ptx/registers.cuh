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

/// Returns the warp's number in its block. A shuffle tells the compiler that all lanes agree, so all lanes
/// must call it.
FA2_DEVICE int warp_index() {
  return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x >> 5), 0);
}

/// Returns the number of the warpgroup: four warps that issue wgmma together. All lanes must call it, as
/// warp_index().
FA2_DEVICE int warpgroup_index() {
  return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x >> 7), 0);
}

/// Returns the start of the block's dynamic shared memory; 1024-byte aligned.
FA2_DEVICE SharedAddress dynamic_shared() {
  extern __shared__ __align__(1024) unsigned char bytes[];
  return static_cast<SharedAddress>(__cvta_generic_to_shared(bytes));
}

}  // namespace fa2::ptx
