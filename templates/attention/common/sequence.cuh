// The sequences of a batch, and the mapping from tile rows to queries.
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
  int rows;  ///< seqlen_q * packed heads
  // Position in the tensors: the batch entry, and the row at which the sequence begins.
  int q_entry;
  int k_entry;
  int q_begin;
  int k_begin;
};

/// A range of tensor rows.
struct RowSpan {
  int begin;
  int length;
};

/// Returns the rows of one sequence, clamped to the tensor whatever the tables hold.
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

/// Returns the shape of the sequence with these queries and keys.
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

/// Returns the shape of a sequence. `batch` may differ between lanes.
template <class Config>
FA2_DEVICE SequenceShape shape_of(const AttentionParams& params, int batch) {
  if constexpr (!Config::varlen) return {params.seqlen_q, params.seqlen_k, params.q_rows, batch, batch, 0, 0};
  const SequenceTables& tables = params.sequences;
  return shape_of<Config>(
      params, batch, span_of(tables.cu_seqlens_q, tables.seqused_q, batch, tables.total_q, params.seqlen_q),
      span_of(tables.cu_seqlens_k, tables.seqused_k, batch, tables.total_k, params.seqlen_k));
}

/// Returns the shape of a sequence. `batch` must be equal in all lanes. The shuffles tell the compiler so,
/// and derived values stay in uniform registers.
template <class Config>
FA2_DEVICE SequenceShape uniform_shape_of(const AttentionParams& params, int batch) {
  const SequenceShape shape = shape_of<Config>(params, batch);
  if constexpr (!Config::varlen) return shape;
  const auto uniform = [](int value) { return ptx::shfl_idx(value, 0); };
  return {uniform(shape.seqlen_q), uniform(shape.seqlen_k), uniform(shape.rows),   uniform(shape.q_entry),
          uniform(shape.k_entry),  uniform(shape.q_begin),  uniform(shape.k_begin)};
}

/// One block's split of a tile, under split KV: KV blocks [begin, end).
struct KeyPart {
  int begin;
  int end;
  /// Thread block that computes the tile's first split; the next blocks compute the others. With fixed split
  /// boundaries: kMostParts * (the tile's slot for partial outputs) + number of this split.
  int place;
  int count;  ///< splits of the tile
};

/// A tile and its sequence.
struct SequenceTile {
  TileCoordinates at;
  SequenceShape shape;
  KeyPart part{};  ///< only under split KV

  FA2_DEVICE bool exist() const { return at.exist(); }
};

/// Maps a row of a tile to query and head: the packed heads of the first query, then those of the next.
template <class Config>
struct RowMap {
  FA2_DEVICE static int query(int row) {
    return static_cast<int>(static_cast<u32>(row) / Config::packed_heads);
  }
  /// Returns the index among the packed heads.
  FA2_DEVICE static int head(int row) {
    return static_cast<int>(static_cast<u32>(row) % Config::packed_heads);
  }
};

/// Returns the query head of a tile's row.
template <class Config>
FA2_DEVICE int query_head(const TileCoordinates& at, int row) {
  return at.head * Config::packed_heads + RowMap<Config>::head(row);
}

/// Returns the offset of a sequence's row in a tensor with query heads; elements.
template <class Config>
FA2_DEVICE i64 query_row(const Strides& strides, const SequenceShape& shape, const TileCoordinates& at,
                         int row) {
  return shape.q_entry * strides.batch_stride + query_head<Config>(at, row) * strides.head_stride +
         (shape.q_begin + RowMap<Config>::query(row)) * strides.row_stride;
}

}  // namespace fa2
