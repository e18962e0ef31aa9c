// A row that append() writes: of 16-bit elements, of e4m3 divided by a factor, or the e4m3 of a latent with factors of its own.
// Columns count from the row's first.
#pragma once

#include "attention/common/latent_row.cuh"
#include "attention/rows/row_chunks.cuh"
#include "ptx/barrier.cuh"
#include "ptx/math.cuh"
#include "ptx/vector8.cuh"
#include "tile/e4m3.cuh"

namespace fa2 {

template <class Config>
FA2_DEVICE void store_four(u16* to, const ptx::Vector8& four) {
  if constexpr (Config::rows_are_16_byte_aligned) return ptx::st_global_v2(to, four);
  FA2_UNROLL
  for (int i = 0; i < 4; ++i) ptx::st_global_u16(to + i, static_cast<u16>(four.word[i / 2] >> (i % 2 * 16)));
}

/// A row of Config::Element.
template <class Config>
struct ElementRow {
  u16* first;

  /// Copies eight elements, bit for bit.
  FA2_DEVICE void copy(int col, const ptx::Vector16& elements) const {
    store_chunk<Config>(first + col, elements);
  }
  /// Rounds eight numbers.
  FA2_DEVICE void store(int col, const float (&x)[8]) const {
    ptx::Vector16 chunk;
    FA2_UNROLL
    for (int i = 0; i < 4; ++i) chunk.word[i] = rounded(x[2 * i], x[2 * i + 1]);
    store_chunk<Config>(first + col, chunk);
  }
  /// Rounds four numbers.
  FA2_DEVICE void store(int col, const float (&x)[4]) const {
    store_four<Config>(first + col, {{rounded(x[0], x[1]), rounded(x[2], x[3])}});
  }

 private:
  FA2_DEVICE static u32 rounded(float low, float high) {
    return ptx::cvt_rn_x2<typename Config::Element>(low, high);
  }
};

/// Returns eight elements as numbers.
template <class Config>
FA2_DEVICE void widen_chunk(const ptx::Vector16& elements, float (&x)[8]) {
  FA2_UNROLL
  for (int i = 0; i < 4; ++i) {
    const ptx::Pair pair = ptx::cvt_f32_x2<typename Config::Element>(elements.word[i]);
    x[2 * i] = pair.low, x[2 * i + 1] = pair.high;
  }
}

/// A row of e4m3; 16-byte aligned. It holds numbers divided by `factor`.
template <class Config>
struct ByteRow {
  unsigned char* first;
  float factor;

  /// Divides and rounds eight elements.
  FA2_DEVICE void copy(int col, const ptx::Vector16& elements) const {
    float x[8];
    widen_chunk<Config>(elements, x);
    store(col, x);
  }
  /// Divides and rounds eight numbers.
  FA2_DEVICE void store(int col, const float (&x)[8]) const {
    ptx::st_global_v2(first + col, {{rounded(x[0], x[1], x[2], x[3]), rounded(x[4], x[5], x[6], x[7])}});
  }
  /// Divides and rounds four numbers.
  FA2_DEVICE void store(int col, const float (&x)[4]) const {
    ptx::st_global_u32(first + col, rounded(x[0], x[1], x[2], x[3]));
  }

 private:
  FA2_DEVICE u32 rounded(float a, float b, float c, float d) const {
    return narrow<Config::converts_e4m3>(ptx::div_rn(a, factor), ptx::div_rn(b, factor),
                                         ptx::div_rn(c, factor), ptx::div_rn(d, factor));
  }
};

/// The e4m3 of a row of latents, and their factors. A group's factor is the least power of two with which no code is beyond 448, so
/// that codes times factors are exact in bfloat16.
template <class Config>
struct LatentCodes {
  unsigned char* first;

  /// Divides and rounds eight elements. All lanes that have columns of a group call together, in order.
  FA2_DEVICE void copy(int col, const ptx::Vector16& elements) const {
    float x[8];
    widen_chunk<Config>(elements, x);
    float largest = 0;
    FA2_UNROLL
    for (int i = 0; i < 8; ++i) largest = ptx::max_f32(largest, ptx::magnitude(x[i]));
    FA2_UNROLL
    for (int lane = 1; lane < LatentRow::group_cols / 8; lane *= 2)
      largest = ptx::max_f32(largest, ptx::shfl_bfly(largest, lane));
    const u32 factor = factor_bits(largest);
    ByteRow<Config>{first, ptx::float_of(factor)}.store(col, x);
    const int group = col / LatentRow::group_cols;
    if (col % LatentRow::group_cols == 0)
      ptx::st_global_u32(first + 2 * LatentRow::factors + 4 * group, factor);
  }

 private:
  /// Returns the bits of the least power of two, from 2^-126 on, whose product with 448 = 1.75 * 2^8 is at least x.
  FA2_DEVICE static u32 factor_bits(float x) {
    const u32 exponent = (ptx::bits_of(x) + 0x1fffffu) >> 23;  // one more if the mantissa is above 1.75
    return (exponent > 9 ? exponent - 8 : 1u) << 23;
  }
};

}  // namespace fa2
