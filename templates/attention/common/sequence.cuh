// The sequences of one batch entry, and what the rows of their tiles are.
#pragma once

#include "attention/common/params.cuh"
#include "attention/common/scheduler.cuh"
#include "ptx/barrier.cuh"
#include "ptx/keywords.cuh"
#include "ptx/memory.cuh"

namespace fa2 {

struct SequenceShape {
  int seqlen_q;
  int seqlen_k;
  int rows;  ///< seqlen_q times the packed heads
  // Where the tensors have them: the entry of the batch, and its row where the sequence begins.
  int q_entry;
  int k_entry;
  int q_begin;
  int k_begin;
};

/// Rows of a tensor.
struct RowSpan {
  int begin;
  int length;
};

/// Those of one sequence: whatever the tables hold, rows of the tensor.
FA2_DEVICE RowSpan span_of(const int* cu_seqlens, const int* seqused, int batch, int total, int longest) {
  const auto clamp = [](int value, int low, int high) {
    return value < low ? low : value < high ? value : high;
  };
  RowSpan span{0, longest};
  if (cu_seqlens != nullptr) {
    span.begin = clamp(ptx::ld_global_s32(cu_seqlens + batch), 0, total);
    const int end = clamp(ptx::ld_global_s32(cu_seqlens + batch + 1), span.begin, total);
    span.length = clamp(end - span.begin, 0, longest);
  }
  if (seqused != nullptr) span.length = clamp(ptx::ld_global_s32(seqused + batch), 0, span.length);
  return span;
}

/// Of the batch entry whose queries and keys are these rows.
template <class Config>
FA2_DEVICE SequenceShape shape_of(const AttentionParams& params, int batch, RowSpan q, RowSpan k) {
  const SequenceTables& tables = params.sequences;
  return {q.length,
          k.length,
          q.length * Config::packed_heads,
          tables.cu_seqlens_q != nullptr ? 0 : batch,
          tables.cu_seqlens_k != nullptr ? 0 : batch,
          q.begin,
          k.begin};
}

/// Of any batch entry, which may be another in each lane.
template <class Config>
FA2_DEVICE SequenceShape shape_of(const AttentionParams& params, int batch) {
  if constexpr (!Config::varlen) return {params.seqlen_q, params.seqlen_k, params.q_rows, batch, batch, 0, 0};
  const SequenceTables& tables = params.sequences;
  return shape_of<Config>(
      params, batch, span_of(tables.cu_seqlens_q, tables.seqused_q, batch, tables.total_q, params.seqlen_q),
      span_of(tables.cu_seqlens_k, tables.seqused_k, batch, tables.total_k, params.seqlen_k));
}

/// Of a batch entry that is the same in every lane, and known to be: what follows from it stays in uniform registers.
template <class Config>
FA2_DEVICE SequenceShape uniform_shape_of(const AttentionParams& params, int batch) {
  const SequenceShape shape = shape_of<Config>(params, batch);
  if constexpr (!Config::varlen) return shape;
  const auto uniform = [](int value) { return ptx::shfl_idx(value, 0); };
  return {uniform(shape.seqlen_q), uniform(shape.seqlen_k), uniform(shape.rows),   uniform(shape.q_entry),
          uniform(shape.k_entry),  uniform(shape.q_begin),  uniform(shape.k_begin)};
}

/// What one thread block computes of a tile whose keys are shared out: blocks [begin, end) of keys.
struct KeyPart {
  int begin;
  int end;
  /// The thread block that computes the tile's first part; those after it the others. Of parts with fixed borders the first
  /// slot of the tile's parts, and the number of this one.
  int place;
  int count;  ///< of the tile's parts
};

/// A tile and the sequence it is of.
struct SequenceTile {
  TileCoordinates at;
  SequenceShape shape;
  KeyPart part{};  ///< only where keys are shared out

  FA2_DEVICE bool exist() const { return at.exist(); }
};

/// A row for each of the packed heads of the first query, then those of the next.
template <class Config>
struct RowMap {
  FA2_DEVICE static int query(int row) {
    return static_cast<int>(static_cast<u32>(row) / Config::packed_heads);
  }
  /// Among those packed.
  FA2_DEVICE static int head(int row) {
    return static_cast<int>(static_cast<u32>(row) % Config::packed_heads);
  }
};

/// The query head of a row of a tile.
template <class Config>
FA2_DEVICE int query_head(const TileCoordinates& at, int row) {
  return at.head * Config::packed_heads + RowMap<Config>::head(row);
}

/// Where a row of a sequence's tiles begins in a tensor with query heads.
template <class Config>
FA2_DEVICE i64 query_row(const Strides& strides, const SequenceShape& shape, const TileCoordinates& at,
                         int row) {
  return shape.q_entry * strides.batch_stride + query_head<Config>(at, row) * strides.head_stride +
         (shape.q_begin + RowMap<Config>::query(row)) * strides.row_stride;
}

}  // namespace fa2
