// Queries for products with keys of 8 bits, which are widened to float16 (byte_tile.cuh), whatever type the queries have.
//
// float16 does not have all exponents of bfloat16. So each row is multiplied by the power of two that brings its largest
// element to the end of float16's range, and its scores by the inverse. Elements down to 2^-32 of the largest one stay exact, and
// smaller ones lose less than 2^-40 of the largest: far less than a sum in float32.
//
// In each block of 16 columns a lane of keys has four neighbours, but a lane of queries has two and two. So the columns of
// queries change places.
#pragma once

#include "ptx/barrier.cuh"
#include "ptx/vector8.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

/// The scales of 16 kM rows, of which each lane has those of its own rows. float16 needs none.
template <class Element, int kM>
struct RowScales {
  template <class Tile>
  FA2_DEVICE void find(Tile, int, int) {}
  FA2_DEVICE u32 scaled(u32 pair, int, int) const { return pair; }
  template <class Scores>
  FA2_DEVICE void unscale(Scores&) const {}
};
template <int kM>
struct RowScales<BFloat16, kM> {
  float inverse[kM][2];  ///< powers of two, of rows fragment_row() and + 8

  /// Finds the scales of rows [row, row + 16 kM) of a tile, by their first 16 `steps` columns. NaN does not count. A row with an
  /// infinity has no finite scores, however small its other elements become.
  template <class Tile>
  FA2_DEVICE void find(Tile tile, int row, int steps) {
    AccumulatorTile<kM, 1> largest;
    largest.clear();
    FA2_NO_UNROLL
    for (int step = 0; step < steps; ++step) {
      const OperandA<kM> block = load_operand_a<kM>(tile, row, 16 * step);
      FA2_UNROLL
      for (int m = 0; m < kM; ++m) {
        FA2_UNROLL
        for (int i = 0; i < 4; ++i) {
          // Only exponents matter, so bits below the upper element may stay.
          add(largest.value[m][0][i], ptx::float_of(block.pair[m][i] << 16));
          add(largest.value[m][0][i], ptx::float_of(block.pair[m][i]));
        }
      }
    }
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      FA2_UNROLL
      for (int half = 0; half < 2; ++half) {
        const float of_lane = ptx::max_f32(largest.value[m][0][half], largest.value[m][0][half + 2]);
        inverse[m][half] = inverse_scale(quad_maximum(of_lane));
      }
    }
  }

  /// Returns two elements of a row as float16.
  FA2_DEVICE u32 scaled(u32 pair, int m, int half) const {
    const float scale = ptx::float_of((254u << 23) - ptx::bits_of(inverse[m][half]));
    const ptx::Pair elements = ptx::cvt_f32_x2<BFloat16>(pair);
    return ptx::cvt_rn_x2<Half>(scale * elements.low, scale * elements.high);
  }

  /// Makes scores of scaled queries those of the queries.
  template <int kN>
  FA2_DEVICE void unscale(AccumulatorTile<kM, kN>& scores) const {
    for_each_four(scores, [&](float(&four)[4], int block) {
      FA2_UNROLL
      for (int i = 0; i < 4; ++i) four[i] *= inverse[block / kN][i / 2];
    });
  }

 private:
  FA2_DEVICE static void add(float& largest, float x) { largest = ptx::max_f32(largest, ptx::abs_f32(x)); }

  /// Returns the power of two that is 2^-15 of x's, at least the smallest normal number.
  FA2_DEVICE static float inverse_scale(float x) {
    const u32 exponent = ptx::bits_of(x) >> 23;
    return ptx::float_of((exponent > 16 ? exponent - 15 : 1) << 23);
  }
};

/// Rewrites columns [col, col + 16) of rows [row, row + 16 kM) of a tile: scaled, and in the order of keys of 8 bits.
template <class Element, int kM, class Tile>
FA2_DEVICE void order_like_bytes(Tile tile, int row, int col, const RowScales<Element, kM>& scales) {
  ptx::Vector8 own[kM][2];
  const auto chunk = [&](int m, int half, int at) {
    return tile.chunk_address(row + 16 * m + 8 * half + fragment_row(), col + at / 8 * 8) +
           static_cast<u32>(at % 8 * 2);
  };
  FA2_UNROLL
  for (int m = 0; m < kM; ++m) {
    FA2_UNROLL
    for (int half = 0; half < 2; ++half) own[m][half] = ptx::ld_shared_v2(chunk(m, half, 2 * fragment_col()));
  }
  ptx::bar_warp_sync();
  FA2_UNROLL
  for (int m = 0; m < kM; ++m) {
    FA2_UNROLL
    for (int half = 0; half < 2; ++half) {
      FA2_UNROLL
      for (int i = 0; i < 2; ++i)
        ptx::st_shared_u32(chunk(m, half, fragment_col() + 8 * i),
                           scales.scaled(own[m][half].word[i], m, half));
    }
  }
}

}  // namespace fa2
