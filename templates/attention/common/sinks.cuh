// Attention sinks: one logit per head that joins the softmax of every row but has no value.
#pragma once

#include "attention/common/scheduler.cuh"
#include "attention/common/sequence.cuh"
#include "ptx/memory.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

/// The sinks for the rows of one warp, which begin with `first_row` of the tile's heads.
template <class Config>
struct Sinks {
  static constexpr bool present = Config::sinks;

  const AttentionParams& params;
  TileCoordinates at;
  int first_row;
  bool join = true;  ///< false: these rows have no sink

  /// Returns the sink of row (m, half) times log2(e), like the exponents of scores.
  FA2_DEVICE float operator()(int m, int half) const {
    constexpr float kLog2E = 1.44269504088896341f;
    if (!join) return -ptx::infinity();
    const int row = first_row + 16 * m + 8 * half + fragment_row();
    return ptx::ld_global_f32(params.sinks + query_head<Config>(params, at, row)) * kLog2E;
  }
};

}  // namespace fa2
