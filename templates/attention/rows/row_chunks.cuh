// Access to rows of (batch, head, row) tensors, eight columns at a time.
#pragma once

#include "attention/common/params.cuh"
#include "ptx/math.cuh"
#include "ptx/registers.cuh"
#include "tile/copy.cuh"

namespace fa2 {

FA2_DEVICE i64 place_of(const Strides& strides, int batch, int head, int row) {
  return batch * strides.batch_stride + head * strides.head_stride + row * strides.row_stride;
}

template <class Config>
FA2_DEVICE ptx::Vector16 load_chunk(const u16* from) {
  if constexpr (Config::rows_are_16_byte_aligned) return ptx::ld_global_v4(from);
  return gather_chunk(from);
}

template <class Config>
FA2_DEVICE void store_chunk(u16* to, const ptx::Vector16& chunk) {
  if constexpr (Config::rows_are_16_byte_aligned) return ptx::st_global_v4(to, chunk);
  FA2_UNROLL
  for (int i = 0; i < 8; ++i) ptx::st_global_u16(to + i, static_cast<u16>(chunk.word[i / 2] >> (i % 2 * 16)));
}

/// Load and store eight elements as float32; 16-bit ones are widened and rounded.
template <class Config>
FA2_DEVICE void load_eight(const float* from, float (&value)[8]) {
  if constexpr (Config::rows_are_16_byte_aligned) {
    float low[4], high[4];
    ptx::ld_global_v4_f32(from, low);
    ptx::ld_global_v4_f32(from + 4, high);
    FA2_UNROLL
    for (int i = 0; i < 4; ++i) value[i] = low[i], value[4 + i] = high[i];
  } else {
    FA2_UNROLL
    for (int i = 0; i < 8; ++i) value[i] = ptx::ld_global_f32(from + i);
  }
}

template <class Config>
FA2_DEVICE void load_eight(const u16* from, float (&value)[8]) {
  const ptx::Vector16 chunk = load_chunk<Config>(from);
  FA2_UNROLL
  for (int i = 0; i < 4; ++i) {
    const ptx::Pair pair = ptx::cvt_f32_x2<typename Config::Element>(chunk.word[i]);
    value[2 * i] = pair.low, value[2 * i + 1] = pair.high;
  }
}

FA2_DEVICE void store_eight(float* to, const float (&value)[8]) {
  FA2_UNROLL
  for (int i = 0; i < 8; ++i) ptx::st_global_f32(to + i, value[i]);
}

template <class Config>
FA2_DEVICE void store_eight(u16* to, const float (&value)[8]) {
  ptx::Vector16 chunk;
  FA2_UNROLL
  for (int i = 0; i < 4; ++i)
    chunk.word[i] = ptx::cvt_rn_x2<typename Config::Element>(value[2 * i], value[2 * i + 1]);
  store_chunk<Config>(to, chunk);
}

}  // namespace fa2
