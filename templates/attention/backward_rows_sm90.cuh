// Rows of a backward's tensors as TMA sees them. Those of packed sequences end with the sequence: what lies behind it is
// neither read nor written.
#pragma once

#include "attention/backward_pipeline_sm90.cuh"
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

/// Of a tensor of kCols columns, as its tensor map is made (operation/tensor_maps.cpp).
template <class Config, int kCols>
using BackwardShape = typename ShapeOfRows<kCols, Config::varlen>::type;

/// `rows`, counted from the first of a sequence, of which none at or beyond `end` exists. `longest`: what a sequence has at
/// most.
template <class Config>
FA2_DEVICE TensorRows rows_before(int end, int longest, const TensorRows& rows) {
  if constexpr (!Config::varlen) return rows;
  return {rows.begin + end, longest - end + rows.row, rows.head, rows.batch};
}

/// Of a query head.
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

/// Without those after the last that some query sees, which may be anything: 0 * NaN is NaN. Before the first, maps of
/// batched tensors have none, and packed ones clear_unseen_keys().
template <class Config>
FA2_DEVICE TensorRows seen_key_rows(const AttentionParams& params, const KeyWork<Config>& work,
                                    int first_row) {
  const SequenceShape& shape = work.shape();
  const int first_key = Config::window_left ? params.first_key : 0;
  return rows_before<Config>(work.queries.mask.seen_rows(0).end, params.seqlen_k,
                             {shape.k_begin, first_row - first_key, work.at.head, shape.k_entry});
}

/// By all consumers, once K is there.
template <class Config>
FA2_DEVICE void clear_unseen_keys(const BackwardLayoutSm90<Config>& shared, const KeyWork<Config>& work,
                                  int warpgroup) {
  const RowsWithin seen = work.queries.mask.seen_rows(work.first_key());
  if (seen.begin <= 0 || work.steps() == 0) return;
  FA2_UNROLL
  for (int tile = 0; tile < BackwardLayoutSm90<Config>::key_tiles; ++tile) {
    clear_rows_outside<32 * Config::warps>(shared.keys(tile), {seen.begin - 64 * tile, seen.end - 64 * tile},
                                           ptx::thread_index() - 128);
  }
  await_others<Config>(warpgroup);
}

}  // namespace fa2
