// The sequences of one batch entry, and what the rows of their tiles are.
#pragma once

#include "attention/params.cuh"
#include "attention/scheduler.cuh"
#include "ptx/keywords.cuh"

namespace fa2 {

struct SequenceShape {
  int seqlen_q;
  int seqlen_k;
  int rows;  ///< seqlen_q times the packed heads
};

FA2_DEVICE SequenceShape shape_of(const AttentionParams& params, int /*batch*/) {
  return {params.seqlen_q, params.seqlen_k, params.q_rows};
}

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

}  // namespace fa2
