// A matrix tile of 16-bit elements in shared memory. cp.async and ldmatrix access it without bank conflicts.
#pragma once

#include "ptx/registers.cuh"

namespace fa2 {

using ptx::SharedAddress;

/// Numbering of the four 8 x 8 blocks in a 16 x 16 block: down the rows first, or across the columns first.
/// It decides which registers of ldmatrix.x4 are adjacent; mma needs a B operand's two blocks in adjacent
/// registers.
enum class BlockOrder { down, across };

/// The row, and its 16-byte chunk, that this lane passes to ldmatrix.x4 for a 16 x 16 block.
template <BlockOrder kOrder>
FA2_DEVICE int block_row() {
  const int lane = ptx::lane_index();
  return kOrder == BlockOrder::down ? lane & 15 : (lane & 7) | (lane >> 4 << 3);
}
template <BlockOrder kOrder>
FA2_DEVICE int block_chunk() {
  const int lane = ptx::lane_index();
  return kOrder == BlockOrder::down ? lane >> 4 : lane >> 3 & 1;
}

/// kRows x kCols elements, as consecutive pages with 64, then 32, then 16 columns; each page is row-major. In
/// a page, a row's 16-byte chunks are XOR-permuted by the row, so that one chunk of 8 adjacent rows meets 8
/// different bank groups. `base` must be a multiple of 128.
template <int kRows, int kCols>
struct SharedTile {
  static_assert(kCols % 16 == 0, "an mma step reads 16 columns");
  static constexpr int rows = kRows;
  static constexpr int cols = kCols;
  static constexpr int bytes = kRows * kCols * 2;

  SharedAddress base;

  FA2_DEVICE static constexpr int page_start(int col) {
    return col < kCols / 64 * 64 ? col / 64 * 64 : col < kCols / 32 * 32 ? kCols / 64 * 64 : kCols / 32 * 32;
  }
  FA2_DEVICE static constexpr int page_width(int col) {
    return col < kCols / 64 * 64 ? 64 : col < kCols / 32 * 32 ? 32 : 16;
  }

  /// Returns the column after all pages that are as wide as the one at `col`, which must be a page's first
  /// column.
  FA2_DEVICE static constexpr int pages_end(int col) {
    return page_width(col) == 64 ? kCols / 64 * 64 : col + page_width(col);
  }

  /// Returns the address of a row's 16-byte chunk `chunk` in the page whose first column is `page`.
  FA2_DEVICE SharedAddress chunk_address(int row, int page, int chunk) const {
    const int width = page_width(page);
    return base + static_cast<u32>(page * kRows * 2 + row * width * 2 + ((chunk ^ swizzle(row, width)) << 4));
  }

  /// Returns the address of the 16-byte chunk at (row, col); col must be a multiple of 8.
  FA2_DEVICE SharedAddress chunk_address(int row, int col) const {
    return chunk_address(row, page_start(col), (col - page_start(col)) / 8);
  }

  /// Returns the row address that this lane passes to ldmatrix.x4 for the 16 x 16 block at (row, col), both
  /// multiples of 16.
  template <BlockOrder kOrder>
  FA2_DEVICE SharedAddress block_address(int row, int col) const {
    const int lane_row = block_row<kOrder>(), lane_chunk = block_chunk<kOrder>();
    const int start = page_start(col), width = page_width(col);
    // The low bits of `base` are 0, so the column's chunk can be XORed into a per-lane address.
    const u32 lane_address =
        base + static_cast<u32>(lane_row * width * 2 + ((lane_chunk ^ swizzle(lane_row, width)) << 4));
    return (lane_address ^ static_cast<u32>((col - start) * 2)) +
           static_cast<u32>(start * kRows * 2 + row * width * 2);
  }

 private:
  FA2_DEVICE static constexpr int swizzle(int row, int width) {
    return width == 64 ? row & 7 : width == 32 ? (row >> 1) & 3 : (row >> 2) & 1;
  }
};

/// kRows rows of a shared tile from row `first` on, which must be a multiple of 16.
template <class Tile, int kRows>
struct TileRows {
  static constexpr int rows = kRows, cols = Tile::cols;
  Tile tile;
  int first;

  template <BlockOrder kOrder>
  FA2_DEVICE SharedAddress block_address(int row, int col) const {
    return tile.template block_address<kOrder>(first + row, col);
  }
  FA2_DEVICE SharedAddress chunk_address(int row, int col) const {
    return tile.chunk_address(first + row, col);
  }
};

/// kCols columns of a shared tile from column `first` on, both multiples of 16. If they need not exist (not kExist), those from
/// kEnd on are copies of the tile's first ones, and nobody needs them.
template <class Tile, int kCols, int kEnd, bool kExist>
struct TileColumns {
  static constexpr int rows = Tile::rows, cols = kCols;
  static_assert(kEnd <= Tile::cols, "columns up to the last needed one exist");
  Tile tile;
  int first;

  template <BlockOrder kOrder>
  FA2_DEVICE SharedAddress block_address(int row, int col) const {
    if constexpr (kExist && kCols % 64 == 0) {  // whole pages: the distance is the same for every column
      return tile.template block_address<kOrder>(row, col) + static_cast<u32>(first * rows * 2);
    } else {
      return tile.template block_address<kOrder>(row, kExist || first + col < kEnd ? first + col : 0);
    }
  }
};

}  // namespace fa2
