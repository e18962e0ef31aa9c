// Barriers, shuffles and votes.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

/// bar.sync 0: every thread of the block; orders their shared-memory accesses.
FA2_DEVICE void bar_sync() {
  asm volatile("bar.sync 0;" ::: "memory");
}

/// bar.sync of one of the 16 barriers: returns once `threads` threads, whole warps, have come to it, with
/// bar_sync or bar_arrive; orders what they did before.
FA2_DEVICE void bar_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/// bar.arrive: counts as one who came, and does not wait.
FA2_DEVICE void bar_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/// elect.sync: true in one lane of the warp, always the same.
FA2_DEVICE bool elect_one() {
  u32 elected;
  asm volatile("{\n  .reg .pred p;\n  elect.sync _|p, 0xffffffff;\n  selp.u32 %0, 1, 0, p;\n}"
               : "=r"(elected));
  return elected != 0;
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

FA2_DEVICE u32 shfl_bfly(u32 value, int lane_mask) {
  u32 other;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(other) : "r"(value), "r"(lane_mask));
  return other;
}

/// shfl.sync.idx: the value of one lane, and known to the compiler to be the same in all.
FA2_DEVICE int shfl_idx(int value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}

FA2_DEVICE float shfl_idx(float value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}

/// A value that is the same in every lane, as if it were a new one: what follows from it stays in uniform registers, and
/// is computed again rather than kept.
FA2_DEVICE u32 renewed(u32 value) {
  u32 same;
  asm volatile("shfl.sync.idx.b32 %0, %1, 0, 0x1f, 0xffffffff;" : "=r"(same) : "r"(value));
  return same;
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

/// vote.sync.ballot: a bit a lane that says true; the same answer in every lane.
FA2_DEVICE u32 vote_ballot(bool predicate) {
  u32 lanes;
  asm volatile("{\n  .reg .pred p;\n  setp.ne.u32 p, %1, 0;\n  vote.sync.ballot.b32 %0, p, 0xffffffff;\n}"
               : "=r"(lanes)
               : "r"(static_cast<u32>(predicate)));
  return lanes;
}

}  // namespace fa2::ptx
