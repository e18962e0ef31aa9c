// In which order the consumer warpgroups of a block issue their products.
#pragma once

#include "ptx/barrier.cuh"

namespace fa2 {

/// Pingpong: warpgroups take turns at issuing products, so that one's softmax runs beside another's products.
/// Named barriers 1.. are the turns; nobody waits unless Config::pingpong.
template <class Config>
struct WarpgroupOrder {
  static constexpr int warpgroups = Config::warps / 4;
  int warpgroup;

  FA2_DEVICE void start() const {
    if constexpr (Config::pingpong) {
      if (warpgroup == 0) ptx::bar_arrive(1, 256);
    }
  }
  FA2_DEVICE void wait() const {
    if constexpr (Config::pingpong) ptx::bar_sync(1 + warpgroup, 256);
  }
  FA2_DEVICE void skip() const {
    wait();
    arrive();
  }
  FA2_DEVICE void arrive() const {
    if constexpr (Config::pingpong)
      ptx::bar_arrive(1 + (warpgroup + 1 == warpgroups ? 0 : warpgroup + 1), 256);
  }
};

}  // namespace fa2
