// Addresses of one head's rows: in a tensor, in LSE and in delta.
#pragma once

#include "attention/common/sequence.cuh"
#include "tile/copy.cuh"

namespace fa2 {

/// Returns the rows of one head, beginning with `row`.
template <int kCols>
FA2_DEVICE GlobalRows<kCols> head_rows(const void* data, const Strides& strides, int batch, int head,
                                       i64 row) {
  return {static_cast<const u16*>(data) + batch * strides.batch_stride + head * strides.head_stride +
              row * strides.row_stride,
          strides.row_stride};
}

/// Returns the index in LSE of the sequence's first query.
template <class Config>
FA2_DEVICE i64 first_statistic(const AttentionParams& params, const SequenceShape& shape, int head) {
  const int entry_rows = Config::varlen ? params.sequences.total_q : params.seqlen_q;
  return (static_cast<i64>(shape.q_entry) * params.heads_q + head) * entry_rows + shape.q_begin;
}

/// Returns the index in delta of the sequence's first query.
FA2_DEVICE i64 first_delta(const BackwardParams& params, const SequenceShape& shape, int head) {
  return (static_cast<i64>(shape.q_entry) * params.attention.heads_q + head) * params.statistic_rows +
         shape.q_begin;
}

}  // namespace fa2
