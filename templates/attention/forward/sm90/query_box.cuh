// The TMA boxes of Q and O: one for a warpgroup's 64 rows, of which it holds those that are not empty.
#pragma once

#include "attention/common/sequence.cuh"
#include "tile/tma_copy.cuh"

namespace fa2 {

/// Returns the rows of a box.
FA2_DEVICE int rows_of_box(const HeadPacking& packing) {
  return packing.box_heads * packing.queries;
}

/// Returns where the box of the rows from `first_row` on begins: with that row's query and head.
template <class Config>
FA2_DEVICE PackedRows query_box(const AttentionParams& params, const SequenceShape& shape,
                                const TileCoordinates& at, int first_row) {
  const RowMap<Config> row_map = row_map_of<Config>(params);
  return {shape.q_begin + row_map.query(first_row), row_map.head(first_row), at.head, shape.q_entry};
}

}  // namespace fa2
