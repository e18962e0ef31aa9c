// A matrix tile of 16-bit elements in shared memory, in the layout that TMA writes and wgmma reads.
#pragma once

#include "ptx/registers.cuh"
#include "ptx/wgmma.cuh"
#include "tile/shared_tile.cuh"

namespace fa2 {

/// kRows x kCols elements, as consecutive groups of columns. A group is as wide as the widest swizzle that
/// divides a row, and holds one span per row. `base` must be a multiple of 8 spans.
template <int kRows, int kCols>
struct SwizzledTile {
  static_assert(kCols % 16 == 0 && kRows % 8 == 0,
                "a wgmma step reads 16 columns, a swizzle repeats every 8 rows");
  static constexpr int rows = kRows;
  static constexpr int cols = kCols;
  static constexpr int bytes = kRows * kCols * 2;
  static constexpr Swizzle swizzle = kCols % 64 == 0   ? Swizzle::span128
                                     : kCols % 32 == 0 ? Swizzle::span64
                                                       : Swizzle::span32;
  static constexpr int span = span_of(swizzle);
  static constexpr int group_cols = span / 2;
  static constexpr int groups = kCols / group_cols;
  static constexpr int group_bytes = kRows * span;

  SharedAddress base;

  /// Returns an operand that is summed over its columns, 16 per step. first_row must be a multiple of 8.
  FA2_DEVICE ptx::MatrixDescriptor by_columns(int step, int first_row = 0) const {
    const int byte = step * 32;
    return ptx::matrix_descriptor<swizzle>(base, 16, 8 * span)
        .advanced(static_cast<u32>(byte / span * group_bytes + byte % span + first_row * span));
  }

  /// Returns an operand that is summed over its rows, 16 per step. first_col must begin a group.
  FA2_DEVICE ptx::MatrixDescriptor by_rows(int step, int first_col = 0) const {
    return ptx::matrix_descriptor<swizzle>(base, group_bytes, 8 * span)
        .advanced(static_cast<u32>(first_col / group_cols * group_bytes + step * 16 * span));
  }

  /// Returns the address of the eight elements at (row, col); col must be a multiple of 8.
  FA2_DEVICE SharedAddress chunk_address(int row, int col) const {
    const int chunk = col % group_cols / 8 ^ permutation(row);
    return base + static_cast<u32>(col / group_cols * group_bytes + row * span + chunk * 16);
  }

  /// Returns the row address that this lane passes to ldmatrix.x4 for the 16 x 16 block at (row, col), both
  /// multiples of 16.
  template <BlockOrder kOrder>
  FA2_DEVICE SharedAddress block_address(int row, int col) const {
    const int lane_row = block_row<kOrder>(), lane_chunk = block_chunk<kOrder>() ^ permutation(lane_row);
    // One lane address serves every block, because the low bits of `base` are 0 and the permutation repeats.
    const u32 lane_address = base + static_cast<u32>(lane_row * span + lane_chunk * 16);
    return (lane_address ^ static_cast<u32>(col % group_cols * 2)) +
           static_cast<u32>(col / group_cols * group_bytes + row * span);
  }

 private:
  /// Returns the number that is XORed into the chunks of a row.
  FA2_DEVICE static constexpr int permutation(int row) {
    constexpr int kRowsOfPattern = 128 / span;  // rows in the same 128 bytes have the same permutation
    return row / kRowsOfPattern % (span / 16);
  }
};

}  // namespace fa2
