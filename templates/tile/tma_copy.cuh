// TMA copies of swizzled tiles between global and shared memory.
#pragma once

#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/proxy.cuh"
#include "ptx/tma.cuh"
#include "tile/copy.cuh"
#include "tile/swizzled_tile.cuh"

namespace fa2 {

/// Coordinates of rows in one head of a tensor.
struct TensorRows {
  int begin;  ///< row of the tensor at which `row` is 0
  int row;    ///< counted from `begin`
  int head;
  int batch;
};

/// Coordinates of rows in several adjacent heads of a group.
struct PackedRows {
  int row;
  int head;  ///< first head, counted from the group's first
  int group;
  int batch;
};

/// A tensor whose rows have kCols elements.
template <int kCols>
struct TensorShape {};

/// A tensor whose heads form groups. A box holds some heads of one row, then those of the next, in one group of
/// columns. It may be smaller than its tile.
template <int kCols>
struct PackedShape {};

/// A tensor in which loads must end with a sequence although other rows follow. The map has two dimensions of
/// rows, and their sum is a row of the tensor: `row`, whose dimension ends with the sequence, and `begin`.
template <int kCols>
struct RaggedShape {};

/// A paged tensor. A box holds rows of one page, in one group of columns.
template <int kCols>
struct PagedShape {};

/// Returns how many boxes carry a tile: one, whose third dimension runs over the groups of columns; or one
/// per group, if the columns end inside a group or heads take that dimension. TMA pads boxes with zeros. The
/// tensor maps match (planning/tensor_maps.h).
template <class Tile, int kCols>
constexpr int boxes_of(TensorShape<kCols>) {
  return kCols % Tile::group_cols == 0 ? 1 : Tile::groups;
}

template <class Tile, int kCols>
constexpr int boxes_of(PackedShape<kCols>) {
  return Tile::groups;
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
template <class Tile, int kCols>
FA2_DEVICE ptx::TensorCoordinates box_at(TensorShape<kCols>, const TensorRows& at, int box) {
  return {{box * Tile::group_cols, at.begin + at.row, 0, at.head, at.batch}};
}
template <class Tile, int kCols>
FA2_DEVICE ptx::TensorCoordinates box_at(PackedShape<kCols>, const PackedRows& at, int box) {
  return {{box * Tile::group_cols, at.head, at.row, at.group, at.batch}};
}

/// Starts to load `tile`. One thread must call it, and the mbarrier must already expect the bytes. Rows
/// outside the tensor become zeros.
template <class Shape, class Tile, class Rows = TensorRows>
FA2_DEVICE void tma_load_tile(Tile tile, const TensorMap& map, const Rows& from, SharedAddress mbarrier) {
  // The loop saves registers: a producer has few for addresses.
  FA2_NO_UNROLL
  for (int box = 0; box < boxes_of<Tile>(Shape{}); ++box) {
    ptx::tma_load(tile.base + static_cast<u32>(box * Tile::group_bytes), map,
                  box_at<Tile>(Shape{}, from, box), mbarrier);
  }
}

/// Clears all rows of a loaded tile except `rows`. kThreads threads share the work, and this one has number
/// `thread`. wgmma may read the rows once all threads have returned.
template <int kThreads, class Tile>
FA2_DEVICE void clear_rows_outside(Tile tile, const RowsWithin& rows, int thread) {
  constexpr int kChunks = Tile::span / 16;
  FA2_NO_UNROLL
  for (int i = thread; i < Tile::rows * Tile::groups * kChunks; i += kThreads) {
    // Chunk order in a span does not matter, because whole spans are cleared.
    const int row = i / kChunks % Tile::rows;
    if (!rows.has(row)) ptx::st_shared_v4(tile.base + static_cast<u32>(16 * i), ptx::Vector16{});
  }
  ptx::fence_proxy_async_shared();
}

/// Starts storing `tile` without the parts outside the tensor, and commits the bulk group. One thread must
/// call it.
template <class Shape, class Tile, class Rows = TensorRows>
FA2_DEVICE void tma_store_tile(const TensorMap& map, const Rows& to, Tile tile) {
  FA2_UNROLL
  for (int box = 0; box < boxes_of<Tile>(Shape{}); ++box) {
    ptx::tma_store(map, box_at<Tile>(Shape{}, to, box),
                   tile.base + static_cast<u32>(box * Tile::group_bytes));
  }
  ptx::bulk_commit_group();
}

}  // namespace fa2
