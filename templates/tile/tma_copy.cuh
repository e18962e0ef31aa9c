// Swizzled tiles between global and shared memory by TMA.
#pragma once

#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/proxy.cuh"
#include "ptx/tma.cuh"
#include "tile/copy.cuh"
#include "tile/swizzled_tile.cuh"

namespace fa2 {

/// Rows of one head of a tensor.
struct TensorRows {
  int begin;  ///< what `row` counts from, in rows of the tensor
  int row;    ///< of `begin`'s; with heads packed, one for each of them
  int head;
  int batch;
};

/// A tensor of rows of kCols elements; with kPackedHeads > 1 a row for each of so many neighbouring heads,
/// then the next row of each.
template <int kCols, int kPackedHeads = 1>
struct TensorShape {};

/// One whose rows end with a sequence: `row` counts towards the end of the map, `begin` says which row of the tensor lies
/// there. TMA sees two dimensions of rows, one after the other's end.
template <int kCols>
struct RaggedShape {};

/// One of pages, whose boxes are rows of one page and one group of columns.
template <int kCols>
struct PagedShape {};

/// How a tile travels: in one box whose third dimension runs over the groups of columns, or, where the
/// columns end inside a group or heads take that dimension, in one box a group, which TMA fills up with
/// zeros. The tensor maps are made to match (api/tensor_maps.h).
template <class Tile, int kCols, int kPackedHeads>
constexpr int boxes_of(TensorShape<kCols, kPackedHeads>) {
  return kCols % Tile::group_cols == 0 && kPackedHeads == 1 ? 1 : Tile::groups;
}

template <class Tile, int kCols>
constexpr int boxes_of(RaggedShape<kCols>) {
  return Tile::groups;
}

template <class Tile, int kCols>
constexpr int boxes_of(PagedShape<kCols>) {
  return Tile::groups;
}

template <class Tile, int kCols>
FA2_DEVICE ptx::TensorCoordinates box_at(RaggedShape<kCols>, const TensorRows& at, int box) {
  return {{box * Tile::group_cols, at.row, at.begin, at.head, at.batch}};
}
template <class Tile, int kCols>
FA2_DEVICE ptx::TensorCoordinates box_at(PagedShape<kCols>, const TensorRows& at, int box) {
  return {{box * Tile::group_cols, at.begin + at.row, 0, at.head, at.batch}};
}
template <class Tile, int kCols, int kPackedHeads>
FA2_DEVICE ptx::TensorCoordinates box_at(TensorShape<kCols, kPackedHeads>, const TensorRows& at, int box) {
  const int col = box * Tile::group_cols;
  if constexpr (kPackedHeads > 1) return {{col, 0, at.begin + at.row / kPackedHeads, at.head, at.batch}};
  return {{col, at.begin + at.row, 0, at.head, at.batch}};
}

/// Starts loading `tile`; the mbarrier expects its bytes already. Rows outside of the tensor arrive as zeros.
/// By one thread.
template <class Shape, class Tile>
FA2_DEVICE void tma_load_tile(Tile tile, const TensorMap& map, const TensorRows& from,
                              SharedAddress mbarrier) {
  // A producer has few registers for addresses.
  FA2_NO_UNROLL
  for (int box = 0; box < boxes_of<Tile>(Shape{}); ++box) {
    ptx::tma_load(tile.base + static_cast<u32>(box * Tile::group_bytes), map,
                  box_at<Tile>(Shape{}, from, box), mbarrier);
  }
}

/// Sets all but `rows` of a tile that TMA has brought to 0, by kThreads of which this is number `thread`. wgmma may read
/// them once all have returned.
template <int kThreads, class Tile>
FA2_DEVICE void clear_rows_outside(Tile tile, const RowsWithin& rows, int thread) {
  constexpr int kChunks = Tile::span / 16;
  FA2_NO_UNROLL
  for (int i = thread; i < Tile::rows * Tile::groups * kChunks; i += kThreads) {
    // Whole spans: how their chunks are permuted does not matter.
    const int row = i / kChunks % Tile::rows;
    if (!rows.has(row)) ptx::st_shared_v4(tile.base + static_cast<u32>(16 * i), ptx::Vector16{});
  }
  ptx::fence_proxy_async_shared();
}

/// Starts storing `tile`, but for what lies outside of the tensor, and commits the group. By one thread.
template <class Shape, class Tile>
FA2_DEVICE void tma_store_tile(const TensorMap& map, const TensorRows& to, Tile tile) {
  FA2_UNROLL
  for (int box = 0; box < boxes_of<Tile>(Shape{}); ++box) {
    ptx::tma_store(map, box_at<Tile>(Shape{}, to, box),
                   tile.base + static_cast<u32>(box * Tile::group_bytes));
  }
  ptx::bulk_commit_group();
}

}  // namespace fa2
