// Stores of accumulators as float32, straight from registers.
#pragma once

#include "ptx/vector8.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

template <bool kFloat32>
struct StoredElement {
  using type = u16;
};
template <>
struct StoredElement<true> {
  using type = float;
};
/// The words of a tensor that a kernel writes: float32, or the bits of 16-bit elements.
template <bool kFloat32>
using Stored = typename StoredElement<kFloat32>::type;

/// Rows of float32 in global memory. Row r starts `r * stride` elements after `data`, and kCols of its columns are stored.
template <int kCols>
struct FloatRows {
  static constexpr int cols = kCols;
  float* data;
  i64 stride;

  FA2_DEVICE float* row(int number) const { return data + number * stride; }
};

/// Stores two adjacent columns. With kAligned, `to` is a multiple of 8 bytes.
template <bool kAligned>
FA2_DEVICE void store_two(float* to, float first, float second) {
  if constexpr (kAligned) return ptx::st_global_v2(to, {{ptx::bits_of(first), ptx::bits_of(second)}});
  ptx::st_global_f32(to, first);
  ptx::st_global_f32(to + 1, second);
}

/// Stores four columns of a row.
template <class Config>
FA2_DEVICE void store_four(float* to, const float (&value)[4]) {
  store_two<Config::rows_are_16_byte_aligned>(to, value[0], value[1]);
  store_two<Config::rows_are_16_byte_aligned>(to + 2, value[2], value[3]);
}

/// Scales and stores a warp's accumulators. Their first row is `first_row` of `destination`. Rows outside `rows`, and columns from
/// destination.cols on, are not stored.
template <bool kAligned, int kM, int kN, class Destination, class Rows>
FA2_DEVICE void store_floats(const Destination& destination, const AccumulatorTile<kM, kN>& tile, float scale,
                             int first_row, const Rows& rows) {
  static_assert(kN * 8 >= Destination::cols, "the accumulator has every column");
  FA2_UNROLL
  for (int m = 0; m < kM; ++m) {
    FA2_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + 16 * m + 8 * half + fragment_row();
      if (!rows.has(row)) continue;
      float* const to = destination.row(row) + fragment_col();
      FA2_UNROLL
      for (int n = 0; n < Destination::cols / 8; ++n) {
        const float(&v)[4] = tile.value[m][n];
        store_two<kAligned>(to + 8 * n, v[2 * half] * scale, v[2 * half + 1] * scale);
      }
    }
  }
}

/// Stores a warp's accumulators of the transpose: their rows are columns of `destination` from `first_col` on, and their columns its rows.
/// Eight threads store eight adjacent columns, which are one sector of memory. Rows outside `rows`, and columns from destination.cols on, are
/// not stored.
template <int kN, class Destination, class Rows>
FA2_DEVICE void store_transposed_floats(const Destination& destination, const AccumulatorTile<1, kN>& tile,
                                        int first_col, const Rows& rows) {
  FA2_UNROLL
  for (int n = 0; n < kN; ++n) {
    FA2_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int row = 8 * n + fragment_col() + i % 2, col = first_col + 8 * (i / 2) + fragment_row();
      if (rows.has(row) && col < Destination::cols)
        ptx::st_global_f32(destination.row(row) + col, tile.value[0][n][i]);
    }
  }
}

}  // namespace fa2
