// Main loop of the fused backward kernel on mma.sync in which half of the warps own dV, and half own dK of
// the same keys. A warp has twice as many keys as if it owned both, so it reads Q and dO half as often. P
// passes from one half to the other through shared memory.
#pragma once

#include "attention/backward/queries_of_keys.cuh"
#include "attention/backward/score_gradient.cuh"
#include "attention/backward/sm80/query_gradient.cuh"

namespace fa2 {

template <class Config>
struct SplitBackwardSm80 {
  using Element = typename Config::Element;
  using Layout = BackwardLayout<Config>;
  static constexpr int owners = Config::warps / 2;  ///< warps that own dV, and as many that own dK
  static constexpr int m_tiles = Config::tile_m / (16 * owners);
  static constexpr int cols =
      Layout::padded_dim > Layout::padded_dim_v ? Layout::padded_dim : Layout::padded_dim_v;
  using Scores = AccumulatorTile<m_tiles, Config::tile_n / 8>;
  using Gradient = AccumulatorTile<m_tiles, cols / 8>;  ///< gradient that a warp owns

  const QueriesOfKeys<Config>& queries;
  const QueryGradientSm80<Config>& dq;
  typename Layout::OwnTile k;
  typename Layout::OwnTileV v;
  int tile_row;
  bool owns_dv;
  int pair;  ///< index of the two warps with the same keys
  int warp_row;

  /// Adds one query head. dQ of a block is computed after the next block's barrier. The owners of dK begin
  /// with it, while the owners of dV compute exponentials; the owners of dV end with it.
  template <class Ring>
  FA2_DEVICE void add_head(const ScoreMod<Config>& score_mod, Ring& ring, int head, Gradient& own) const {
    for (int n = ring.blocks.end - 1; n >= ring.blocks.begin; --n) {
      ring.await(n);
      if (owns_dv) {
        Scores scores;
        scores.clear();
        gemm_nt<Element>(scores, k, warp_row, ring.first_tile());  // S^T = K Q^T
        to_probabilities(scores, score_mod, ring, n);
        gemm_nn<Element>(own, scores, ring.second_tile());  // dV += P^T dO
        if (n + 1 < ring.blocks.end) dq.add(head, n + 1);
      } else {
        if (n + 1 < ring.blocks.end) dq.add(head, n + 1);
        Scores gradients;
        gradients.clear();
        gemm_nt<Element>(gradients, v, warp_row, ring.second_tile());  // dP^T = V dO^T
        to_score_gradients(gradients, score_mod, ring, n);
        gemm_nn<Element>(own, gradients, ring.first_tile());  // dK += dS^T Q
      }
      ring.pop(n);
    }
    dq.add_last(head, ring);
  }

 private:
  static constexpr int k_steps = Config::tile_n / 16;

  /// Replaces scores by P, and sends the other warp the factors of dP - delta.
  template <class Ring>
  FA2_DEVICE void to_probabilities(Scores& scores, const ScoreMod<Config>& score_mod, const Ring& ring,
                                   int n) const {
    const auto statistics = prepared_statistics<Config, m_tiles>(ring);
    const Dropout<Config> none = dropout_of<Config>(score_mod.params);  // the rules reject dropout
    const auto of = score_gradients<ScoreTile::keys_by_queries>(score_mod, none, ring.blocks, queries,
                                                                statistics, tile_row + warp_row, n);
    if constexpr (of.needs_scores) {
      Scores weights;
      of.to_probabilities_and_weights(scores, weights);
      send_weights(weights, n);
    } else {
      of.to_probabilities(scores);
      send_weights(scores, n);
    }
  }

  template <class Ring>
  FA2_DEVICE void to_score_gradients(Scores& gradients, const ScoreMod<Config>& score_mod, const Ring& ring,
                                     int n) const {
    const auto statistics = prepared_statistics<Config, m_tiles>(ring);
    const Dropout<Config> none = dropout_of<Config>(score_mod.params);  // the rules reject dropout
    score_gradients<ScoreTile::keys_by_queries>(score_mod, none, ring.blocks, queries, statistics,
                                                tile_row + warp_row, n)
        .to_unweighted_gradients(gradients);
    multiply_by_weights(gradients, n);
    ptx::bar_warp_sync();  // dS takes the place of the weights
    round_into_tile<Element>(dq.scores(n), warp_row, gradients);
  }

  /// Returns the address of this lane's weights. They use the memory of the same keys' dS, in register order,
  /// which is the same for both warps.
  FA2_DEVICE SharedAddress weights_address(int n, int m, int k) const {
    using Tile = typename Layout::ScoreTile;
    const int page = Tile::page_start(16 * k), width = Tile::page_width(16 * k);
    return dq.scores(n).base + static_cast<u32>(page * Tile::rows * 2 + (warp_row + 16 * m) * width * 2 +
                                                (16 * k - page) * 32 + ptx::lane_index() * 16);
  }

  FA2_DEVICE void send_weights(const Scores& weights, int n) const {
    FA2_UNROLL
    for (int k = 0; k < k_steps; ++k) {
      const OperandA<m_tiles> rounded = round_to_operand_a<Element>(weights, k);
      FA2_UNROLL
      for (int m = 0; m < m_tiles; ++m) {
        const u32(&v4)[4] = rounded.pair[m];
        ptx::st_shared_v4(weights_address(n, m, k), ptx::Vector16{{v4[0], v4[1], v4[2], v4[3]}});
      }
    }
    ptx::bar_arrive(1 + pair, 64);
  }

  FA2_DEVICE void multiply_by_weights(Scores& gradients, int n) const {
    ptx::bar_sync(1 + pair, 64);
    FA2_UNROLL
    for (int k = 0; k < k_steps; ++k) {
      FA2_UNROLL
      for (int m = 0; m < m_tiles; ++m) {
        const ptx::Vector16 weights = ptx::ld_shared_v4(weights_address(n, m, k));
        FA2_UNROLL
        for (int i = 0; i < 4; ++i) {
          const ptx::Pair weight = ptx::cvt_f32_x2<Element>(weights.word[i]);
          float(&v4)[4] = gradients.value[m][2 * k + i / 2];
          v4[i % 2 * 2] *= weight.low;
          v4[i % 2 * 2 + 1] *= weight.high;
        }
      }
    }
  }
};

}  // namespace fa2
