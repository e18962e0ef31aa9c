// FlashAttention-2 forward (arXiv 2307.08691, Algorithm 1) on mma.sync and cp.async, for sm_80 and later
// GPUs.
#pragma once

#include "attention/common/dropout.cuh"
#include "attention/common/key_blocks.cuh"
#include "attention/common/largest_scores.cuh"
#include "attention/common/score_mod.cuh"
#include "attention/common/softmax.cuh"
#include "attention/forward/sm80/key_value_ring.cuh"
#include "attention/forward/sm80/query_operand.cuh"

namespace fa2 {

/// The products of a warp that computes its rows' scores of all keys, and their whole output.
template <class Config>
struct OwnProducts {
  static constexpr int m_tiles = QueryOperand<Config>::m_tiles;
  using Scores = AccumulatorTile<m_tiles, Config::tile_n / 8>;
  using Output =
      typename KeyValueFormat<Config>::template Output<m_tiles, SharedLayout<Config>::padded_dim_v / 8>;

  template <class Keys>
  FA2_DEVICE void add_scores(Scores& scores, const QueryOperand<Config>& q, Keys keys) const {
    fa2::add_scores<Config>(q, keys, [&](int) -> Scores& { return scores; });
    q.unscale(scores);
  }
  template <class Values>
  FA2_DEVICE void add_values(Output& output, const Scores& probabilities, Values values) const {
    fa2::add_values<Config>(output, probabilities, values);
  }
};

/// State of one warp in the loop over KV blocks. The warp owns m_tiles * 16 query rows and never needs
/// another warp's rows (split-Q).
template <class Config, class Products = OwnProducts<Config>>
struct MainloopSm80 {
  static constexpr int m_tiles = QueryOperand<Config>::m_tiles;
  using Scores = typename Products::Scores;
  using Output = typename Products::Output;

  static_assert(Config::tile_m % (16 * Config::warps) == 0, "every warp owns whole 16-row mma tiles");
  static_assert(Config::tile_n % 16 == 0, "an ldmatrix.x4 reads 16 keys");

  Output output;
  OnlineSoftmax<m_tiles, typename KeyValueFormat<Config>::Probability> softmax;
  LargestScores<Config, m_tiles> largest;
  Products products;

  /// Runs lines 6 to 14 of Algorithm 1. On return `output` is unnormalised.
  template <class Ring>
  FA2_DEVICE void run(const Mask<Config>& mask, const ScoreMod<Config>& score_mod,
                      const Dropout<Config>& dropout, const Descales<Config>& descales, int first_row,
                      const QueryOperand<Config>& q, Ring& ring) {
    const KeyBlocks<Config> blocks = ring.blocks;
    largest.start();
    for (int n = blocks.end - 1; n >= blocks.begin; n = blocks.has_map ? blocks.below(n) : n - 1) {
      Scores scores;
      scores.clear();
      ring.await_keys(n);
      products.add_scores(scores, q, ring.keys());
      ring.await_values(n);
      descales.scale_scores(scores);
      score_mod.apply(scores, first_row, n * Config::tile_n);
      score_mod.hide(scores, first_row, n * Config::tile_n, blocks.shows_all(n));
      blocks.hide_keys(mask, scores, first_row, n);
      largest.add(scores);
      if (softmax.step(scores)) softmax.rescale(output);
      dropout.template drop<ScoreTile::queries_by_keys>(scores, first_row, n * Config::tile_n);
      products.add_values(output, scores, ring.values());
      ring.pop();
    }
  }
};

}  // namespace fa2
