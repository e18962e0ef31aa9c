// FlashAttention-2 forward (arXiv 2307.08691, Algorithm 1) on mma.sync and cp.async, for sm_80 and later
// GPUs.
#pragma once

#include "attention/common/dropout.cuh"
#include "attention/common/key_blocks.cuh"
#include "attention/common/score_mod.cuh"
#include "attention/common/softmax.cuh"
#include "attention/forward/sm80/key_value_ring.cuh"
#include "attention/forward/sm80/query_operand.cuh"

namespace fa2 {

/// State of one warp in the loop over KV blocks. The warp owns m_tiles * 16 query rows and never needs
/// another warp's rows (split-Q).
template <class Config>
struct MainloopSm80 {
  using Layout = SharedLayout<Config>;
  static constexpr int m_tiles = QueryOperand<Config>::m_tiles;
  using Scores = AccumulatorTile<m_tiles, Config::tile_n / 8>;
  using Format = KeyValueFormat<Config>;
  using Output = typename Format::template Output<m_tiles, Layout::padded_dim_v / 8>;

  static_assert(Config::tile_m % (16 * Config::warps) == 0, "every warp owns whole 16-row mma tiles");
  static_assert(Config::tile_n % 16 == 0, "an ldmatrix.x4 reads 16 keys");

  Output output;
  OnlineSoftmax<m_tiles, typename Format::Probability> softmax;

  /// Runs lines 6 to 14 of Algorithm 1. On return `output` is unnormalised.
  template <class Ring>
  FA2_DEVICE void run(const Mask<Config>& mask, const ScoreMod<Config>& score_mod,
                      const Dropout<Config>& dropout, const Descales<Config>& descales, int first_row,
                      const QueryOperand<Config>& q, Ring& ring) {
    const KeyBlocks<Config> blocks = ring.blocks;
    for (int n = blocks.end - 1; n >= blocks.begin; --n) {
      Scores scores;
      scores.clear();
      ring.await_keys(n);
      add_scores<Config>(scores, q, ring.keys());
      ring.await_values(n);
      descales.scale_scores(scores);
      score_mod.apply(scores, first_row, n * Config::tile_n);
      blocks.hide_keys(mask, scores, first_row, n);
      if (softmax.step(scores)) softmax.rescale(output);
      dropout.template drop<ScoreTile::queries_by_keys>(scores, first_row, n * Config::tile_n);
      add_values<Config>(output, scores, ring.values());
      ring.pop();
    }
  }
};

}  // namespace fa2
