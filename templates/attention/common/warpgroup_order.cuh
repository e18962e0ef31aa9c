// The order in which a block's consumer warpgroups issue their products.
#pragma once

#include "ptx/barrier.cuh"

namespace fa2 {

/// Ping-pong scheduling: the warpgroups issue products in turn, so that one's softmax overlaps another's
/// products. Named barriers from 1 on pass the turn. Without Config::pingpong no function waits.
template <class Config>
struct WarpgroupOrder {
  static constexpr int warpgroups = Config::warps / 4;
  int warpgroup;

  FA2_DEVICE void start() const {
    if constexpr (Config::pingpong > 0) {
      if (warpgroup == 0) ptx::bar_arrive(1, 256);
    }
  }
  FA2_DEVICE void wait() const {
    if constexpr (Config::pingpong > 0) ptx::bar_sync(1 + warpgroup, 256);
  }
  FA2_DEVICE void skip() const {
    wait();
    arrive();
  }
  FA2_DEVICE void arrive() const {
    if constexpr (Config::pingpong > 0)
      ptx::bar_arrive(1 + (warpgroup + 1 == warpgroups ? 0 : warpgroup + 1), 256);
  }
};

}  // namespace fa2
