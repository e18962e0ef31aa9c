// Barriers, shuffles and votes.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

/// bar.sync 0: every thread of the block; orders their shared-memory accesses.
FA2_DEVICE void bar_sync() {
  asm volatile("bar.sync 0;" ::: "memory");
}

/// bar.warp.sync over the whole warp; orders its lanes' memory accesses.
FA2_DEVICE void bar_warp_sync() {
  asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}

/// shfl.sync.bfly: the value of the lane whose index differs by `lane_mask`.
FA2_DEVICE float shfl_bfly(float value, int lane_mask) {
  float other;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(other) : "f"(value), "r"(lane_mask));
  return other;
}

/// vote.sync.any: whether any lane of the warp says true; the same answer in every lane.
FA2_DEVICE bool vote_any(bool predicate) {
  u32 any;
  asm volatile(
      "{\n  .reg .pred p, q;\n  setp.ne.u32 p, %1, 0;\n  vote.sync.any.pred q, p, 0xffffffff;\n  selp.u32 "
      "%0, 1, 0, q;\n}"
      : "=r"(any)
      : "r"(static_cast<u32>(predicate)));
  return any != 0;
}

}  // namespace fa2::ptx
