// Attention sinks: a logit a head that takes its share of every row's probability and has no value.
#pragma once

#include "attention/common/scheduler.cuh"
#include "attention/common/sequence.cuh"
#include "ptx/memory.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

/// Of the rows of one warp, beginning with `first_row` of the tile's heads.
template <class Config>
struct Sinks {
  static constexpr bool present = Config::sinks;

  const AttentionParams& params;
  TileCoordinates at;
  int first_row;
  bool join = true;  ///< else there are none

  /// In units of log2(e), as the exponents of scores are.
  FA2_DEVICE float operator()(int m, int half) const {
    constexpr float kLog2E = 1.44269504088896341f;
    if (!join) return -ptx::infinity();
    const int row = first_row + 16 * m + 8 * half + fragment_row();
    return ptx::ld_global_f32(params.sinks + query_head<Config>(at, row)) * kLog2E;
  }
};

}  // namespace fa2
