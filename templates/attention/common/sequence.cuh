// The sequences of a batch, and the mapping from tile rows to queries.
#pragma once

#include "attention/common/params.cuh"
#include "attention/common/query_positions.cuh"
#include "attention/common/scheduler.cuh"
#include "ptx/barrier.cuh"
#include "ptx/keywords.cuh"
#include "ptx/memory.cuh"

namespace fa2 {

struct SequenceShape {
  int seqlen_q;
  int seqlen_k;
  int rows;  ///< seqlen_q; in the forward packed_rows()
  // Position in the tensors: the batch entry, and the row at which the sequence begins.
  int q_entry;
  int k_entry;
  int q_begin;
  int k_begin;
  QueryPositions positions{};  ///< used if Config::query_pieces
};

/// A range of tensor rows.
struct RowSpan {
  int begin;
  int length;
};

/// Returns the rows of one sequence, clamped to the tensor whatever the tables hold. No branch parts the
/// loads, so that those of several sequences overlap.
FA2_DEVICE RowSpan span_of(const int* cu_seqlens, const int* seqused, int batch, int total, int longest) {
  const auto clamp = [](int value, int low, int high) {
    return value < low ? low : value < high ? value : high;
  };
  const int first = ptx::ld_global_s32_or(cu_seqlens, batch, 0);
  const int next = ptx::ld_global_s32_or(cu_seqlens, batch + 1, longest);
  const int used = ptx::ld_global_s32_or(seqused, batch, longest);
  const int begin = clamp(first, 0, total);
  const int length = cu_seqlens == nullptr ? longest : clamp(clamp(next, begin, total) - begin, 0, longest);
  return {begin, clamp(used, 0, length)};
}

/// Returns where the queries of a sequence stand, clamped whatever a table holds. `Params`: AttentionParams, whose pieces are known where
/// this is used.
template <class Config, class Params>
FA2_DEVICE QueryPositions positions_of(const Params& params, int batch, int queries) {
  if constexpr (!Config::query_pieces) {
    return {};
  } else if constexpr (!Config::varlen) {
    return params.query_pieces.positions;
  } else {
    const auto clamp = [](int value, int low, int high) {
      return value < low ? low : value < high ? value : high;
    };
    const int* const row = params.query_pieces.table + 3 * static_cast<i64>(batch);
    const int split = clamp(ptx::ld_global_s32(row), 0, queries), end = kEndOfPositions - queries;
    const int first = clamp(ptx::ld_global_s32(row + 1), kLeastPosition, end);
    return {split, first, clamp(ptx::ld_global_s32(row + 2), first, end)};
  }
}

/// Returns the shape of the sequence with these queries and keys.
template <class Config>
FA2_DEVICE SequenceShape shape_of(const AttentionParams& params, int batch, RowSpan q, RowSpan k) {
  const SequenceTables& tables = params.sequences;
  return {q.length,
          k.length,
          Config::packs_heads ? packed_rows(params.packing, q.length) : q.length,
          tables.cu_seqlens_q != nullptr ? 0 : batch,
          tables.cu_seqlens_k != nullptr ? 0 : batch,
          q.begin,
          k.begin,
          positions_of<Config>(params, batch, q.length)};
}

/// Returns the shape of a sequence. `batch` may differ between lanes.
template <class Config>
FA2_DEVICE SequenceShape shape_of(const AttentionParams& params, int batch) {
  if constexpr (!Config::varlen)
    return {params.seqlen_q,
            params.seqlen_k,
            params.q_rows,
            batch,
            batch,
            0,
            0,
            positions_of<Config>(params, batch, params.seqlen_q)};
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
  const QueryPositions& at = shape.positions;
  return {
      uniform(shape.seqlen_q),
      uniform(shape.seqlen_k),
      uniform(shape.rows),
      uniform(shape.q_entry),
      uniform(shape.k_entry),
      uniform(shape.q_begin),
      uniform(shape.k_begin),
      Config::query_pieces ? QueryPositions{uniform(at.split), uniform(at.first), uniform(at.second)} : at};
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

/// Maps a row of a sequence's tiles to query and head. Queries never decrease from row to row.
template <class Config>
struct RowMap {
  const HeadPacking& packing;

  /// Returns the query. An empty row counts as the first query of the next block.
  FA2_DEVICE int query(int row) const {
    if constexpr (!Config::packs_heads) return row;
    return (row >> packing.block_log2) * packing.queries + query_in_block(row);
  }
  /// Returns the index of the head among those that share tiles.
  FA2_DEVICE int head(int row) const {
    if constexpr (!Config::packs_heads) return 0;
    return row_in_block(row) - query_in_block(row) * packing.heads;
  }
  /// Returns whether the row is not empty. It must come before the sequence's end.
  FA2_DEVICE bool is_filled(int row) const {
    return !Config::packs_heads || query_in_block(row) < packing.queries;
  }

 private:
  FA2_DEVICE int row_in_block(int row) const { return row & ((1 << packing.block_log2) - 1); }
  FA2_DEVICE int query_in_block(int row) const {
    return row_in_block(row) * packing.inverse >> 16;  // exact, because blocks have at most 128 rows
  }
};

template <class Config>
FA2_DEVICE RowMap<Config> row_map_of(const AttentionParams& params) {
  return {params.packing};
}

/// Returns the query head of a tile's row.
template <class Config>
FA2_DEVICE int query_head(const AttentionParams& params, const TileCoordinates& at, int row) {
  if constexpr (!Config::packs_heads) return at.head;
  return at.head * params.packing.heads + row_map_of<Config>(params).head(row);
}

/// Returns the offset of a sequence's row in a tensor with query heads; elements.
template <class Config>
FA2_DEVICE i64 query_row(const AttentionParams& params, const Strides& strides, const SequenceShape& shape,
                         const TileCoordinates& at, int row) {
  return shape.q_entry * strides.batch_stride + query_head<Config>(params, at, row) * strides.head_stride +
         (shape.q_begin + row_map_of<Config>(params).query(row)) * strides.row_stride;
}

/// A tile's rows of Q or O in global memory. Packed heads alternate from row to row.
template <class Config, int kCols>
struct QueryRows {
  static constexpr int cols = kCols;
  const AttentionParams& params;
  const void* data;
  const Strides& strides;
  const SequenceShape& shape;
  const TileCoordinates& at;

  FA2_DEVICE const u16* row(int number) const {
    const int row = at.q_tile * Config::tile_m + number;
    return static_cast<const u16*>(data) + query_row<Config>(params, strides, shape, at, row);
  }
  /// Returns whether the row belongs to the sequence and is not empty.
  FA2_DEVICE bool has(int number) const {
    const int row = at.q_tile * Config::tile_m + number;
    return row < shape.rows && row_map_of<Config>(params).is_filled(row);
  }
};

}  // namespace fa2
