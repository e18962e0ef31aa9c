// The dQ accumulator of the fused backward kernel on mma.sync: float32, in register order.
#pragma once

#include "attention/backward/sums.cuh"
#include "attention/common/head_rows.cuh"

namespace fa2 {

/// The 16 x 8 blocks of a head's dQ, row by row. If red adds four floats at once (sm_90), a lane's four
/// floats are contiguous in their block. Otherwise neighbouring lanes' floats are, so that a warp adds to 128
/// consecutive bytes.
template <class Config>
struct QuerySumsSm80 {
  static constexpr int padded_dim = (Config::head_dim + 15) / 16 * 16;
  static constexpr int block_floats = 16 * 8;
  static constexpr int lane_stride = Config::adds_four ? 4 : 1;

  /// Returns the address of this lane's first float in the block at (row, col); multiples of 16 and 8. The
  /// block to the right follows at a distance of block_floats.
  FA2_DEVICE static float* address(const BackwardParams& params, const SequenceShape& shape, int head,
                                   int row, int col) {
    const i64 first_row =
        (static_cast<i64>(shape.q_entry) * params.attention.heads_q + head) * params.statistic_rows + row;
    return params.delta + 3 * params.statistic_count + first_row * sum_cols<padded_dim> + 16 * col +
           lane_stride * ptx::lane_index();
  }

  FA2_DEVICE static void add(float* block, const float (&value)[4]) {
    if constexpr (Config::adds_four) {
      ptx::red_add_global_v4_f32(block, value);
    } else {
      FA2_UNROLL
      for (int i = 0; i < 4; ++i) ptx::red_add_global_f32(block + 32 * i, value[i]);
    }
  }

  FA2_DEVICE static void load(const float* block, float (&value)[4]) {
    if constexpr (Config::adds_four) {
      ptx::ld_global_v4_f32(block, value);
    } else {
      FA2_UNROLL
      for (int i = 0; i < 4; ++i) value[i] = ptx::ld_global_f32(block + 32 * i);
    }
  }
};

}  // namespace fa2
