// The fused backward kernel dq_dk_dv, on mma.sync and cp.async (FlashAttention-2, Algorithm 2).
//
// Launch: one thread block per key tile and key/value head, or several that share its queries (key_parts.cuh).
// Block: visits the query blocks of all query heads in the group. It keeps dK and dV in registers, and adds
// its part of dQ to the dQ accumulator in global memory.
// Warp: owns rows of dK and dV or, with split_gradients, of one of the two (split.cuh). Rows are keys and
// columns are queries, so P^T and dS^T are operands as they lie in registers.
// Shared memory: K and V, the ring of Q and dO, then two tiles of dS (layout.cuh). dK and dV leave through K
// and V, or from registers in float32.
#pragma once

#include "attention/backward/gradient_rows.cuh"
#include "attention/backward/key_parts.cuh"
#include "attention/backward/queries_of_keys.cuh"
#include "attention/backward/score_gradient.cuh"
#include "attention/backward/sm80/query_gradient.cuh"
#include "attention/backward/sm80/ring.cuh"
#include "attention/backward/sm80/split.cuh"
#include "attention/backward/sm80/store.cuh"
#include "attention/common/tile_sides.cuh"

namespace fa2 {

/// One warp's rows of dK and dV over all queries of a group, and its part of each dQ.
template <class Config>
struct BackwardMainloopSm80 {
  using Element = typename Config::Element;
  using Layout = BackwardLayout<Config>;
  static constexpr int m_tiles = Config::tile_m / (16 * Config::warps);

  const QueriesOfKeys<Config>& queries;
  const QueryGradientSm80<Config>& dq;
  typename Layout::OwnTile k;
  typename Layout::OwnTileV v;
  int tile_row;
  int warp_row;

  AccumulatorTile<m_tiles, Layout::padded_dim / 8> dk;
  AccumulatorTile<m_tiles, Layout::padded_dim_v / 8> dv;

  /// Runs lines 6 to 19 of Algorithm 2 for one query head. dQ of a block needs the dS of all warps, so it is
  /// computed after the next block's barrier.
  template <class Ring>
  FA2_DEVICE void add_head(const ScoreMod<Config>& score_mod, Ring& ring, int head) {
    for (int n = ring.blocks.end - 1; n >= ring.blocks.begin; --n) {
      ring.await(n);
      if (n + 1 < ring.blocks.end) dq.add(head, n + 1);
      AccumulatorTile<m_tiles, Config::tile_n / 8> scores, gradients;
      scores.clear();
      gradients.clear();
      gemm_nt<Element>(scores, k, warp_row, ring.first_tile());      // S^T = K Q^T
      gemm_nt<Element>(gradients, v, warp_row, ring.second_tile());  // dP^T = V dO^T
      const auto statistics = prepared_statistics<Config, m_tiles>(ring);
      const Dropout<Config> none = dropout_of<Config>(score_mod.params);  // the rules reject dropout
      score_gradients<ScoreTile::keys_by_queries>(score_mod, none, ring.blocks, queries, statistics,
                                                  tile_row + warp_row, n)
          .to_probabilities_and_gradients(scores, gradients);
      round_into_tile<Element>(dq.scores(n), warp_row, gradients);
      gemm_nn<Element>(dv, scores, ring.second_tile());    // dV += P^T dO
      gemm_nn<Element>(dk, gradients, ring.first_tile());  // dK += dS^T Q
      ring.pop(n);
    }
    dq.add_last(head, ring);
  }
};

/// A block's key tile, and its part of the queries.
template <class Config>
struct KeyTileSm80 {
  using Layout = BackwardLayout<Config>;

  const BackwardParams& params;
  TileCoordinates at;
  QueriesOfKeys<Config> queries;
  SharedAddress shared;

  FA2_DEVICE typename Layout::OwnTile k() const { return {shared}; }
  FA2_DEVICE typename Layout::OwnTileV v() const { return {shared + Layout::OwnTile::bytes}; }
  FA2_DEVICE int first_row() const { return at.q_tile * Config::tile_m; }
  FA2_DEVICE const SequenceShape& shape() const { return queries.mask.shape; }
  FA2_DEVICE QueryBlocks<Config> blocks() const { return key_blocks(queries, first_row(), Config::tile_m); }

  FA2_DEVICE GradientPart<Config> part() const {
    return GradientPart<Config>::of(params, ptx::block_index());
  }
  FA2_DEVICE bool is_part() const {
    return GradientPart<Config>::is_one_of_several(params, ptx::block_index());
  }

  /// Chooses the block's part. Returns whether it has one.
  FA2_DEVICE bool start() const {
    if (params.parts.value == 1) return true;
    const QueryBlocks<Config> of_head = blocks();
    const int group = params.attention.queries_per_kv;
    const int steps = of_head.is_empty() ? 0 : (of_head.end - of_head.begin) * group;
    const PartSteps own = PartSteps::of(params, PartNumber::of(params, ptx::block_index()).part, steps);
    part().describe(PartSteps::count_of(params, steps), own, shape(), at.head, first_row());
    ptx::bar_sync();
    return own.exist();
  }

  /// Returns the part's blocks among those of the group's head `i`.
  FA2_DEVICE QueryBlocks<Config> blocks_of_head(int i) const {
    const QueryBlocks<Config> all = blocks();
    if (params.parts.value == 1) return all;
    const PartSteps own = part().steps();
    const int end = all.end + i * (all.end - all.begin);  // of step 0, if all heads' blocks counted down
    return all.within(end - own.end, end - own.begin);
  }

  /// Returns the tile's rows in a tensor with key/value heads.
  template <int kCols>
  FA2_DEVICE GlobalRows<kCols> rows_of(const void* data, const Strides& strides) const {
    return head_rows<kCols>(data, strides, shape().k_entry, at.head,
                            static_cast<i64>(shape().k_begin) + first_row());
  }

  /// Loads the rows of K and V that some query sees. Others may hold NaN, and dS K multiplies them by 0.
  FA2_DEVICE void load() const {
    const RowsWithin seen = queries.mask.seen_rows(first_row());
    load_own_tile<Config>(k(), rows_of<Config::head_dim>(params.attention.k, params.attention.k_strides),
                          seen);
    load_own_tile<Config>(v(), rows_of<Config::head_dim_v>(params.attention.v, params.attention.v_strides),
                          seen);
  }

  /// Calls f(score_mod, ring, head) for each query head of the group, with the part's blocks.
  template <class F>
  FA2_DEVICE void for_each_head(const F& f) const {
    const AttentionParams& attention = params.attention;
    for (int i = 0; i < attention.queries_per_kv; ++i) {
      const TileCoordinates of_head{at.q_tile, at.head * attention.queries_per_kv + i, at.batch};
      const float* const delta = params.delta + first_delta(params, shape(), of_head.head);
      BackwardRing<Config, QueryBlocks<Config>> ring{
          head_rows<Config::head_dim>(attention.q, attention.q_strides, shape().q_entry, of_head.head,
                                      shape().q_begin),
          head_rows<Config::head_dim_v>(params.d_o, params.d_o_strides, shape().q_entry, of_head.head,
                                        shape().q_begin),
          {delta + params.statistic_count, delta},
          blocks_of_head(i),
          shared + Layout::ring_start,
          0};
      ring.start();
      f(score_mod_of<Config>(attention, shape(), of_head), ring, of_head.head);
    }
    await_own_tiles();
  }

  template <class Gradient>
  FA2_DEVICE void store_dk(int warp_row, Gradient& dk) const {
    store_gradient<Config>(k(), warp_row, dk, params.attention.scale,
                           gradient_rows<Config::head_dim>(params.dk, params.dk_strides),
                           shape().seqlen_k - first_row());
  }
  template <class Gradient>
  FA2_DEVICE void store_dv(int warp_row, Gradient& dv) const {
    store_gradient<Config>(v(), warp_row, dv, 1.0f,
                           gradient_rows<Config::head_dim_v>(params.dv, params.dv_strides),
                           shape().seqlen_k - first_row());
  }

 private:
  template <int kCols>
  FA2_DEVICE auto gradient_rows(void* data, const Strides& strides) const {
    return fa2::gradient_rows<Config::float32_dk_dv, kCols>(data, strides, shape().k_entry, at.head,
                                                            static_cast<i64>(shape().k_begin) + first_row());
  }
};

/// Computes a tile whose warps own both gradients of their keys.
template <class Config>
FA2_DEVICE void compute_whole(const KeyTileSm80<Config>& tile, const QueryGradientSm80<Config>& dq) {
  const int warp_row = ptx::warp_index() * 16 * BackwardMainloopSm80<Config>::m_tiles;
  BackwardMainloopSm80<Config> mainloop{tile.queries, dq, tile.k(), tile.v(), tile.first_row(), warp_row};
  mainloop.dk.clear();
  mainloop.dv.clear();
  tile.for_each_head(
      [&](const auto& score_mod, auto& ring, int head) { mainloop.add_head(score_mod, ring, head); });
  if (tile.is_part()) {
    tile.part().store(mainloop.dk, tile.params.attention.scale, warp_row, false);
    return tile.part().store(mainloop.dv, 1.0f, warp_row, true);
  }
  tile.store_dk(warp_row, mainloop.dk);
  tile.store_dv(warp_row, mainloop.dv);
}

/// Computes a tile whose warps own one gradient each.
template <class Config>
FA2_DEVICE void compute_split(const KeyTileSm80<Config>& tile, const QueryGradientSm80<Config>& dq) {
  using Split = SplitBackwardSm80<Config>;
  const int warp = ptx::warp_index(), pair = warp % Split::owners;
  const Split of{tile.queries,
                 dq,
                 tile.k(),
                 tile.v(),
                 tile.first_row(),
                 warp < Split::owners,
                 pair,
                 16 * Split::m_tiles * pair};
  typename Split::Gradient own;
  own.clear();
  tile.for_each_head(
      [&](const auto& score_mod, auto& ring, int head) { of.add_head(score_mod, ring, head, own); });
  if (tile.is_part())
    return tile.part().store(own, of.owns_dv ? 1.0f : tile.params.attention.scale, of.warp_row, of.owns_dv);
  if (of.owns_dv) {
    tile.store_dv(of.warp_row, own);
  } else {
    tile.store_dk(of.warp_row, own);
  }
}

template <class Config>
FA2_DEVICE void backward_sm80(const BackwardParams& params) {
  const BatchedTiles<KeySide> tiles{{params}};
  const u32 number = PartNumber::of(params, ptx::block_index()).tile;
  if (params.parts.value > 1 && number >= tiles.count()) return;
  const TileCoordinates at = tiles.at(number);
  const Mask<Config> mask = mask_of<Config>(params.attention, shape_of<Config>(params.attention, at.batch));
  const KeyTileSm80<Config> tile{params, at, {mask}, ptx::dynamic_shared()};
  const QueryGradientSm80<Config> dq{params, tile.shape(), tile.k(), tile.shared,
                                     QueryGradientSm80<Config>::Shares::of(ptx::warp_index())};
  if (!tile.start()) return;
  tile.load();
  if constexpr (Config::split_gradients) {
    compute_split(tile, dq);
  } else {
    compute_whole(tile, dq);
  }
}

}  // namespace fa2
