// The separate dK and dV kernel, on mma.sync and cp.async (FlashAttention-2, Algorithm 2 without dQ).
//
// Launch: one thread block per key tile and key/value head.
// Block: visits the query blocks of all query heads in the group.
// Warp: owns rows of dK and dV. Rows are keys and columns are queries, so P^T and dS^T are operands as they
// lie in registers.
// Shared memory: K and V, then the ring of Q, dO, LSE and delta (layout.cuh). dK and dV leave through K and
// V, or from registers in float32.
#pragma once

#include "attention/backward/gradient_rows.cuh"
#include "attention/backward/queries_of_keys.cuh"
#include "attention/backward/score_gradient.cuh"
#include "attention/backward/sm80/ring.cuh"
#include "attention/backward/sm80/store.cuh"
#include "attention/common/head_rows.cuh"
#include "attention/common/varlen_tiles.cuh"
#include "tile/gemm.cuh"

namespace fa2 {

/// One warp's rows of dK and dV over all queries of a group.
template <class Config>
struct KeyGradients {
  using Element = typename Config::Element;
  using Layout = BackwardLayout<Config>;
  static constexpr int m_tiles = Config::tile_m / (16 * Config::warps);
  // Members that are not computed stay unused, and take no registers.
  AccumulatorTile<m_tiles, Layout::padded_dim / 8> dk;
  AccumulatorTile<m_tiles, Layout::padded_dim_v / 8> dv;

  /// Adds one query head.
  template <class Ring>
  FA2_DEVICE void add_head(const QueriesOfKeys<Config>& queries, const ScoreMod<Config>& score_mod,
                           const Dropout<Config>& dropout, Ring& ring, typename Layout::OwnTile k,
                           typename Layout::OwnTileV v, int tile_row, int warp_row) {
    for (int n = ring.blocks.end - 1; n >= ring.blocks.begin; --n) {
      ring.await(n);
      AccumulatorTile<m_tiles, Config::tile_n / 8> scores, gradients;
      scores.clear();
      gradients.clear();
      gemm_nt<Element>(scores, k, warp_row, ring.first_tile());  // S^T = K Q^T
      if constexpr (Config::computes_ds)
        gemm_nt<Element>(gradients, v, warp_row, ring.second_tile());  // dP^T = V dO^T
      const ColumnStatistics<m_tiles, Config> statistics{ring.statistics_tile(),
                                                         ring.statistics_tile() + 4 * Config::tile_n};
      score_gradients<ScoreTile::keys_by_queries>(score_mod, dropout, ring.blocks, queries, statistics,
                                                  tile_row + warp_row, n)
          .to_probabilities_and_gradients(scores, gradients);
      if constexpr (Config::computes_dv) gemm_nn<Element>(dv, scores, ring.second_tile());    // dV += P^T dO
      if constexpr (Config::computes_dk) gemm_nn<Element>(dk, gradients, ring.first_tile());  // dK += dS^T Q
      ring.pop(n);
    }
  }
};

template <class Config>
FA2_DEVICE void backward_keys(const BackwardParams& params) {
  using Layout = BackwardLayout<Config>;
  const AttentionParams& attention = params.attention;
  auto tiles = key_tiles_of<Config>(params);
  if (Config::varlen && ptx::block_index() >= tiles.count()) return;
  TileCoordinates at = tiles.at(ptx::block_index());
  const int kv_head = at.head;
  const Mask<Config> mask = mask_of<Config>(attention, uniform_shape_of<Config>(attention, at.batch));
  const SequenceShape& shape = mask.shape;
  const QueriesOfKeys<Config> queries{mask};
  const int tile_row = at.q_tile * Config::tile_m;
  const int warp_row = ptx::warp_index() * 16 * KeyGradients<Config>::m_tiles;
  const i64 first_row = static_cast<i64>(shape.k_begin) + tile_row;

  const SharedAddress shared = ptx::dynamic_shared();
  const typename Layout::OwnTile k{shared};
  const typename Layout::OwnTileV v{shared + Layout::OwnTile::bytes};
  load_own_tile<Config>(
      k, head_rows<Config::head_dim>(attention.k, attention.k_strides, shape.k_entry, kv_head, first_row),
      RowsBefore{shape.seqlen_k - tile_row});
  load_own_tile<Config>(
      v, head_rows<Config::head_dim_v>(attention.v, attention.v_strides, shape.k_entry, kv_head, first_row),
      RowsBefore{shape.seqlen_k - tile_row});

  const Dropout<Config> dropout = dropout_of<Config>(attention);
  KeyGradients<Config> gradients;
  if constexpr (Config::computes_dk) gradients.dk.clear();
  if constexpr (Config::computes_dv) gradients.dv.clear();
  for (int i = 0; i < attention.queries_per_kv; ++i) {
    at.head = kv_head * attention.queries_per_kv + i;
    BackwardRing<Config, QueryBlocks<Config>> ring{
        head_rows<Config::head_dim>(attention.q, attention.q_strides, shape.q_entry, at.head, shape.q_begin),
        head_rows<Config::head_dim_v>(params.d_o, params.d_o_strides, shape.q_entry, at.head, shape.q_begin),
        {attention.lse + first_statistic<Config>(attention, shape, at.head),
         params.delta + first_delta(params, shape, at.head)},
        key_blocks(queries, tile_row, Config::tile_m),
        shared + Layout::ring_start,
        0};
    if (i > 0) ptx::bar_sync();  // others may still read the last head's last block
    ring.start();
    gradients.add_head(queries, score_mod_of<Config>(attention, shape, at),
                       dropout.of_head(shape, at.batch * attention.heads_q + at.head), ring, k, v, tile_row,
                       warp_row);
  }
  await_own_tiles();
  const int rows = shape.seqlen_k - tile_row;
  if constexpr (Config::computes_dk)
    store_gradient<Config>(k, warp_row, gradients.dk, attention.scale,
                           gradient_rows<Config::float32_dk_dv, Config::head_dim>(
                               params.dk, params.dk_strides, shape.k_entry, kv_head, first_row),
                           rows);
  if constexpr (Config::computes_dv)
    store_gradient<Config>(v, warp_row, gradients.dv, value_gradient_scale<Config>(attention),
                           gradient_rows<Config::float32_dk_dv, Config::head_dim_v>(
                               params.dv, params.dv_strides, shape.k_entry, kv_head, first_row),
                           rows);
}

}  // namespace fa2
