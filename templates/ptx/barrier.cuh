// Barriers, shuffles and votes.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

/// bar.sync 0: waits for every thread of the block, and orders their shared memory accesses.
FA2_DEVICE void bar_sync() {
  asm volatile("bar.sync 0;" ::: "memory");
}

/// bar.sync: waits until `threads` threads, in whole warps, have reached one of the 16 barriers with bar_sync
/// or bar_arrive. Orders what they did before.
FA2_DEVICE void bar_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/// bar.arrive: counts as arrived, and does not wait.
FA2_DEVICE void bar_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/// elect.sync: returns true in one lane of the warp, always the same one.
FA2_DEVICE bool elect_one() {
  u32 elected;
  asm volatile("{\n  .reg .pred p;\n  elect.sync _|p, 0xffffffff;\n  selp.u32 %0, 1, 0, p;\n}"
               : "=r"(elected));
  return elected != 0;
}

/// bar.warp.sync: waits for the whole warp, and orders its lanes' memory accesses.
FA2_DEVICE void bar_warp_sync() {
  asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}

/// shfl.sync.bfly: returns the value of the lane whose index differs in the bits of `lane_mask`.
FA2_DEVICE float shfl_bfly(float value, int lane_mask) {
  float other;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(other) : "f"(value), "r"(lane_mask));
  return other;
}

FA2_DEVICE u32 shfl_bfly(u32 value, int lane_mask) {
  u32 other;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(other) : "r"(value), "r"(lane_mask));
  return other;
}

/// shfl.sync.idx: returns one lane's value. The compiler knows that it is equal in all lanes.
FA2_DEVICE int shfl_idx(int value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}

FA2_DEVICE float shfl_idx(float value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}

/// Returns the same value, which must be equal in all lanes, as if it were new. Derived values stay in
/// uniform registers, and are computed again instead of kept.
FA2_DEVICE u32 renewed(u32 value) {
  u32 same;
  asm volatile("shfl.sync.idx.b32 %0, %1, 0, 0x1f, 0xffffffff;" : "=r"(same) : "r"(value));
  return same;
}

/// Returns `value`, of which the compiler does not know that it is the same. Values that follow from it are computed again instead
/// of kept.
FA2_DEVICE int renewed_in_lane(int value) {
  int same;
  asm volatile("mov.b32 %0, %1;" : "=r"(same) : "r"(value));
  return same;
}

/// vote.sync.any: returns whether `predicate` is true in any lane of the warp; equal in all lanes.
FA2_DEVICE bool vote_any(bool predicate) {
  u32 any;
  asm volatile(
      "{\n  .reg .pred p, q;\n  setp.ne.u32 p, %1, 0;\n  vote.sync.any.pred q, p, 0xffffffff;\n  selp.u32 "
      "%0, 1, 0, q;\n}"
      : "=r"(any)
      : "r"(static_cast<u32>(predicate)));
  return any != 0;
}

/// vote.sync.ballot: returns one bit per lane, set if `predicate` is true there; equal in all lanes.
FA2_DEVICE u32 vote_ballot(bool predicate) {
  u32 lanes;
  asm volatile("{\n  .reg .pred p;\n  setp.ne.u32 p, %1, 0;\n  vote.sync.ballot.b32 %0, p, 0xffffffff;\n}"
               : "=r"(lanes)
               : "r"(static_cast<u32>(predicate)));
  return lanes;
}

}  // namespace fa2::ptx
