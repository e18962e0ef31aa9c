// The largest score of each batch entry and query head (AttentionArgs::max_logits). The softmax's own maximum will not do: it
// may lag behind the true one.
#pragma once

#include "attention/common/scheduler.cuh"
#include "attention/common/sequence.cuh"
#include "ptx/atomic.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

/// A lane's largest score in each row of its warp. Nothing unless Config::max_logits.
template <class Config, int kM, bool kKept = Config::max_logits>
struct LargestScores {
  FA2_DEVICE void start() {}
  template <int kN>
  FA2_DEVICE void add(const AccumulatorTile<kM, kN>&) {}
  FA2_DEVICE void store(float*, const AttentionParams&, const SequenceShape&, const TileCoordinates&, int,
                        float) const {}
};

template <class Config, int kM>
struct LargestScores<Config, kM, true> {
  float largest[kM][2];

  FA2_DEVICE void start() {
    for_each_row([&](int m, int half) { largest[m][half] = -ptx::infinity(); });
  }

  /// Adds scores as they enter the softmax: modified, and -infinity where they are hidden.
  template <int kN>
  FA2_DEVICE void add(const AccumulatorTile<kM, kN>& scores) {
    for_each_row([&](int m, int half) {
      FA2_UNROLL
      for (int n = 0; n < kN; ++n) {
        const float both = ptx::max_f32(scores.value[m][n][2 * half], scores.value[m][n][2 * half + 1]);
        largest[m][half] = ptx::max_f32(largest[m][half], both);
      }
    });
  }

  /// Raises the heads' largest logits in memory, at `to`. `first_row`: the warp's first row in the sequence.
  /// `scale_log2`: the factor of a score in its exponent, base 2.
  FA2_DEVICE void store(float* to, const AttentionParams& params, const SequenceShape& shape,
                        const TileCoordinates& at, int first_row, float scale_log2) const {
    constexpr float kLn2 = 0.693147180559945309f;
    const int heads = params.heads_q * params.packing.heads;
    for_each_row([&](int m, int half) {
      float most = largest[m][half];
      most = ptx::max_f32(most, ptx::shfl_bfly(most, 1));
      most = ptx::max_f32(most, ptx::shfl_bfly(most, 2));
      const int row = first_row + 16 * m + 8 * half + fragment_row();
      if (fragment_col() != 0 || row >= shape.rows || !row_map_of<Config>(params).is_filled(row)) return;
      if (most == -ptx::infinity()) return;
      const i64 head = static_cast<i64>(at.batch) * heads + query_head<Config>(params, at, row);
      ptx::red_max_global_f32(to + head, most * (scale_log2 * kLn2));
    });
  }

 private:
  /// Calls f(m, half), unrolled.
  template <class F>
  FA2_DEVICE static void for_each_row(const F& f) {
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      f(m, 0);
      f(m, 1);
    }
  }
};

}  // namespace fa2
