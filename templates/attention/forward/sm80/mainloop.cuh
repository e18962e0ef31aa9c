// FlashAttention-2 forward (arXiv 2307.08691, Algorithm 1) on mma.sync and cp.async, for sm_80 and later
// GPUs.
#pragma once

#include "attention/common/dropout.cuh"
#include "attention/common/key_blocks.cuh"
#include "attention/common/score_mod.cuh"
#include "attention/common/softmax.cuh"
#include "attention/forward/sm80/key_value_ring.cuh"
#include "attention/forward/sm80/query_operand.cuh"
#include "tile/gemm.cuh"

namespace fa2 {

/// State of one warp in the loop over KV blocks. The warp owns m_tiles * 16 query rows and never needs
/// another warp's rows (split-Q).
template <class Config>
struct MainloopSm80 {
  using Element = typename Config::Element;
  using Layout = SharedLayout<Config>;
  static constexpr int m_tiles = QueryOperand<Config>::m_tiles;
  using Scores = AccumulatorTile<m_tiles, Config::tile_n / 8>;
  using Output = AccumulatorTile<m_tiles, Layout::padded_dim_v / 8>;

  static_assert(Config::tile_m % (16 * Config::warps) == 0, "every warp owns whole 16-row mma tiles");
  static_assert(Config::tile_n % 16 == 0, "an ldmatrix.x4 reads 16 keys");

  Output output;
  OnlineSoftmax<m_tiles, Element> softmax;

  /// Runs lines 6 to 14 of Algorithm 1. On return `output` is unnormalised.
  template <class Ring>
  FA2_DEVICE void run(const Mask<Config>& mask, const ScoreMod<Config>& score_mod,
                      const Dropout<Config>& dropout, int first_row, const QueryOperand<Config>& q,
                      Ring& ring) {
    const KeyBlocks<Config> blocks = ring.blocks;
    for (int n = blocks.end - 1; n >= blocks.begin; --n) {
      Scores scores;
      scores.clear();
      ring.await_keys(n);
      FA2_UNROLL
      for (int k = 0; k < q.steps; ++k) gemm_nt_step<Element>(scores, q.step(k), ring.keys(), 16 * k);
      ring.await_values(n);
      score_mod.apply(scores, first_row, n * Config::tile_n);
      blocks.hide_keys(mask, scores, first_row, n);
      if (softmax.step(scores)) softmax.rescale(output);
      dropout.template drop<ScoreTile::queries_by_keys>(scores, first_row, n * Config::tile_n);
      FA2_UNROLL
      for (int k = 0; k < Config::tile_n / 16; ++k) {
        gemm_nn_step<Element>(output, round_to_operand_a<Element>(scores, k), ring.values(), 16 * k);
      }
      ring.pop();
    }
  }
};

}  // namespace fa2
