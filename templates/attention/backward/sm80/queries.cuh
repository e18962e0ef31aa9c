// Kernels whose blocks own queries, on mma.sync and cp.async: FlashAttention-2, Algorithm 2, with its loops exchanged.
//
// Launch: one thread block per query tile and head.
// Block: visits the KV blocks that some query of its tile sees.
// Warp: owns rows of the scores, and what they sum up to.
// Shared memory: Q and dO, then the ring of K and V (layout.cuh). dQ leaves through Q.
#pragma once

#include "attention/backward/gradient_rows.cuh"
#include "attention/backward/score_gradient.cuh"
#include "attention/backward/sm80/ring.cuh"
#include "attention/backward/sm80/store.cuh"
#include "attention/backward/sums.cuh"
#include "attention/common/head_rows.cuh"
#include "attention/common/varlen_tiles.cuh"
#include "tile/gemm.cuh"

namespace fa2 {

/// Returns LSE and delta for a warp's rows, which begin with the sequence's `first_row`. Rows beyond its end
/// see nothing.
template <class Config, int kM>
FA2_DEVICE RowStatistics<kM> load_row_statistics(const BackwardParams& params, const SequenceShape& shape,
                                                 const TileCoordinates& at, int first_row) {
  const float* const lse = params.attention.lse + first_statistic<Config>(params.attention, shape, at.head);
  const float* const delta = params.delta + first_delta_of(params, shape, at);
  RowStatistics<kM> of;
  FA2_UNROLL
  for (int m = 0; m < kM; ++m) {
    FA2_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + 16 * m + 8 * half + fragment_row();
      const bool exists = row < shape.seqlen_q;
      of.offset[m][half] = exists ? exponent_offset<Config>(ptx::ld_global_f32(lse + row)) : ptx::infinity();
      of.delta[m][half] = exists ? ptx::ld_global_f32(delta + row) : 0.0f;
    }
  }
  return of;
}

/// dQ of a warp's rows. It stays in registers and has the same bits in every run.
template <class Config>
struct QueryGradient {
  using Layout = BackwardLayout<Config>;
  AccumulatorTile<Config::tile_m / (16 * Config::warps), Layout::padded_dim / 8> dq;

  FA2_DEVICE explicit QueryGradient(const ScoreMod<Config>&) { dq.clear(); }

  /// Adds a KV block. `scores`: Q K^T; `gradients`: dP.
  template <class Scores, class Of, class Keys>
  FA2_DEVICE void add(Scores& scores, Scores& gradients, const Of& of, const Keys& keys) {
    of.to_probabilities_and_gradients(scores, gradients);
    gemm_nn<typename Config::Element>(dq, gradients, keys);  // dQ += dS K
  }

  /// Stores them, through the warp's rows of `tile`.
  FA2_DEVICE void store(const BackwardParams& params, const SequenceShape& shape, const TileCoordinates& at,
                        typename Layout::OwnTile tile, int warp_row) {
    const int tile_row = at.q_tile * Config::tile_m;
    store_gradient<Config>(
        tile, warp_row, dq, params.attention.scale,
        gradient_rows<Config::float32_dq, Config::head_dim>(
            params.dq, params.dq_strides, shape.q_entry, at.head, static_cast<i64>(shape.q_begin) + tile_row),
        shape.seqlen_q - tile_row);
  }
};

/// Computes one tile. `Sums<Config>`: what becomes of its scores' gradients, like QueryGradient; made of a ScoreMod and `more`.
template <class Config, template <class> class Sums, class... More>
FA2_DEVICE void backward_queries(const BackwardParams& params, const More&... more) {
  using Element = typename Config::Element;
  using Layout = BackwardLayout<Config>;
  constexpr int kM = Config::tile_m / (16 * Config::warps);
  const AttentionParams& attention = params.attention;
  auto tiles = tiles_of<Config>(attention);
  if (Config::varlen && ptx::block_index() >= tiles.count()) return;
  const TileCoordinates at = tiles.at(ptx::block_index());
  const Mask<Config> mask = mask_of<Config>(attention, uniform_shape_of<Config>(attention, at.batch));
  const SequenceShape& shape = mask.shape;
  const ScoreMod<Config> score_mod = score_mod_of<Config>(attention, shape, at);
  const int tile_row = at.q_tile * Config::tile_m, warp_row = ptx::warp_index() * 16 * kM;
  const int kv_head = at.head / attention.queries_per_kv;
  const i64 first_row = static_cast<i64>(shape.q_begin) + tile_row;

  const SharedAddress shared = ptx::dynamic_shared();
  const typename Layout::OwnTile q{shared};
  const typename Layout::OwnTileV d_o{shared + Layout::OwnTile::bytes};
  BackwardRing<Config, KeyBlocks<Config>> ring{
      head_rows<Config::head_dim>(attention.k, attention.k_strides, shape.k_entry, kv_head, shape.k_begin),
      head_rows<Config::head_dim_v>(attention.v, attention.v_strides, shape.k_entry, kv_head, shape.k_begin),
      {},
      key_blocks(mask, tile_row, Config::tile_m),
      shared + Layout::ring_start,
      0};
  load_own_tile<Config>(
      q, head_rows<Config::head_dim>(attention.q, attention.q_strides, shape.q_entry, at.head, first_row),
      RowsBefore{shape.seqlen_q - tile_row});
  load_own_tile<Config>(
      d_o, head_rows<Config::head_dim_v>(params.d_o, params.d_o_strides, shape.q_entry, at.head, first_row),
      RowsBefore{shape.seqlen_q - tile_row});
  ring.start();
  const auto statistics = load_row_statistics<Config, kM>(params, shape, at, tile_row + warp_row);

  const Dropout<Config> dropout =
      dropout_of<Config>(attention).of_head(shape, at.batch * attention.heads_q + at.head);

  Sums<Config> sums(score_mod, more...);
  for (int n = ring.blocks.end - 1; n >= ring.blocks.begin; --n) {
    ring.await(n);
    AccumulatorTile<kM, Config::tile_n / 8> scores, gradients;
    scores.clear();
    gradients.clear();
    gemm_nt<Element>(scores, q, warp_row, ring.first_tile());        // S = Q K^T
    gemm_nt<Element>(gradients, d_o, warp_row, ring.second_tile());  // dP = dO V^T
    sums.add(scores, gradients,
             score_gradients<ScoreTile::queries_by_keys>(score_mod, dropout, ring.blocks, mask, statistics,
                                                         tile_row + warp_row, n),
             ring.first_tile());
    ring.pop(n);
  }
  await_own_tiles();
  sums.store(params, shape, at, q, warp_row);
}

}  // namespace fa2
