// TMA coordinates for rows of backward tensors. The rows of a packed sequence end with it: TMA neither reads
// nor writes what follows.
#pragma once

#include "attention/backward/sm90/pipeline.cuh"
#include "tile/tma_copy.cuh"

namespace fa2 {

template <int kCols, bool kRagged>
struct ShapeOfRows {
  using type = TensorShape<kCols>;
};
template <int kCols>
struct ShapeOfRows<kCols, true> {
  using type = RaggedShape<kCols>;
};

/// TMA shape of a tensor with kCols columns; it matches the tensor map (planning/tensor_maps.cpp).
template <class Config, int kCols>
using BackwardShape = typename ShapeOfRows<kCols, Config::varlen>::type;

/// Returns `rows`, which count from the sequence's first row, without those from `end` on. `longest`: rows of
/// the longest sequence.
template <class Config>
FA2_DEVICE TensorRows rows_before(int end, int longest, const TensorRows& rows) {
  if constexpr (!Config::varlen) return rows;
  return {rows.begin + end, longest - end + rows.row, rows.head, rows.batch};
}

/// Returns rows of Q or dO for a query head.
template <class Config>
FA2_DEVICE TensorRows query_rows(const AttentionParams& params, const KeyWork<Config>& work, int head,
                                 int first_row) {
  const SequenceShape& shape = work.shape();
  return rows_before<Config>(shape.seqlen_q, params.seqlen_q,
                             {shape.q_begin, first_row, head, shape.q_entry});
}

template <class Config>
FA2_DEVICE TensorRows key_rows(const AttentionParams& params, const KeyWork<Config>& work, int first_row) {
  const SequenceShape& shape = work.shape();
  return rows_before<Config>(shape.seqlen_k, params.seqlen_k,
                             {shape.k_begin, first_row, work.at.head, shape.k_entry});
}

/// Returns rows of K or V up to the last key that any query sees. Later rows may hold NaN, and 0 * NaN is
/// NaN. Batched tensor maps begin with the first key seen; for packed sequences clear_unseen_keys() clears
/// the keys before it.
template <class Config>
FA2_DEVICE TensorRows seen_key_rows(const AttentionParams& params, const KeyWork<Config>& work,
                                    int first_row) {
  const SequenceShape& shape = work.shape();
  const int first_key = Mask<Config>::has_begin ? params.first_key : 0;
  return rows_before<Config>(work.queries.mask.seen_rows(0).end, params.seqlen_k,
                             {shape.k_begin, first_row - first_key, work.at.head, shape.k_entry});
}

/// Returns how many of a block's key tiles are loaded. With packed sequences these are the tiles with a key
/// that some query sees: a box without a row of the sequence would read before the tensor.
template <class Config>
FA2_DEVICE int loaded_key_tiles(const KeyWork<Config>& work) {
  constexpr int tiles = BackwardLayoutSm90<Config>::key_tiles;
  if constexpr (!Config::varlen) return tiles;
  const int seen = work.queries.mask.seen_rows(work.first_key()).end;
  return seen <= 0 ? 0 : seen <= 64 * (tiles - 1) ? (seen + 63) / 64 : tiles;
}

/// Clears the rows of K before the first key that some query sees, and tiles that are not loaded. All
/// consumers must call it after K and V have arrived.
template <class Config>
FA2_DEVICE void clear_unseen_keys(const BackwardLayoutSm90<Config>& shared, const KeyWork<Config>& work,
                                  int warpgroup) {
  constexpr int kThreads = 32 * Config::warps;
  const RowsWithin seen = work.queries.mask.seen_rows(work.first_key());
  const int loaded = loaded_key_tiles(work), thread = ptx::thread_index() - 128;
  const bool has_all = loaded == BackwardLayoutSm90<Config>::key_tiles && seen.begin <= 0;
  if (has_all || work.steps() == 0) return;
  FA2_UNROLL
  for (int tile = 0; tile < BackwardLayoutSm90<Config>::key_tiles; ++tile) {
    clear_rows_outside<kThreads>(shared.keys(tile), {seen.begin - 64 * tile, seen.end - 64 * tile}, thread);
    if (tile >= loaded) clear_rows_outside<kThreads>(shared.values(tile), RowsWithin{0, 0}, thread);
  }
  await_others<Config>(warpgroup);
}

}  // namespace fa2
