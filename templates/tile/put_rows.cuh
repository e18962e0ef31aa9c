// Stores of accumulators as float32, row by row, to any memory.
#pragma once

#include "ptx/memory.cuh"
#include "ptx/vector8.cuh"
#include "tile/byte_tile.cuh"

namespace fa2 {

/// Puts this lane's elements of a row: one of block m's first eight, or with `half` last eight. `first_col`: the accumulator's first
/// column in the row. Columns from kCols on are left out.
template <int kCols, class Row, int kM, int kN>
FA2_DEVICE void put_row(const Row& row, const AccumulatorTile<kM, kN>& tile, int m, int half, int first_col) {
  // The lane's column is part of the address, so that blocks differ by constants.
  const Row of_lane = row.from_column(fragment_col());
  FA2_UNROLL
  for (int n = 0; n < kN; ++n) {
    const float(&value)[4] = tile.value[m][n];
    if (first_col + 8 * n < kCols)
      of_lane.put(first_col + 8 * n,
                  ptx::Vector8{{ptx::bits_of(value[2 * half]), ptx::bits_of(value[2 * half + 1])}});
  }
}
template <int kCols, class Row, int kM, int kN>
FA2_DEVICE void put_row(const Row& row, const InterleavedTile<kM, kN>& tile, int m, int half, int first_col) {
  const Row of_lane = row.from_column(2 * fragment_col());
  FA2_UNROLL
  for (int n = 0; n < kN; n += 2) {
    const float(&even)[4] = tile.value[m][n], (&odd)[4] = tile.value[m][n + 1];
    if (first_col + 8 * n < kCols)
      of_lane.put(first_col + 8 * n,
                  ptx::Vector16{{ptx::bits_of(even[2 * half]), ptx::bits_of(odd[2 * half]),
                                 ptx::bits_of(even[2 * half + 1]), ptx::bits_of(odd[2 * half + 1])}});
  }
}

/// A row of float32 in global memory. With kAligned it begins at a multiple of 16 bytes.
template <bool kAligned>
struct FloatRow {
  float* to;

  FA2_DEVICE FloatRow from_column(int col) const { return {to + col}; }
  FA2_DEVICE void put(int col, const ptx::Vector8& value) const {
    if constexpr (kAligned) return ptx::st_global_v2(to + col, value);
    put_words(col, value.word);
  }
  FA2_DEVICE void put(int col, const ptx::Vector16& value) const {
    if constexpr (kAligned) return ptx::st_global_v4(to + col, value);
    put_words(col, value.word);
  }

 private:
  template <int kCount>
  FA2_DEVICE void put_words(int col, const u32 (&word)[kCount]) const {
    FA2_UNROLL
    for (int i = 0; i < kCount; ++i) ptx::st_global_u32(to + col + i, word[i]);
  }
};

}  // namespace fa2
