// Access to rows of (batch, head, row) tensors, eight columns at a time.
#pragma once

#include "attention/common/params.cuh"
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

}  // namespace fa2
