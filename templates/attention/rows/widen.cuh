// The kernel that widens keys and values of 8 bits to 16, for kernels that load these by TMA.
//
// Launch: one thread per 16 columns of a row: first all rows of K, then V.
#pragma once

#include "attention/common/key_pages.cuh"
#include "attention/common/key_value_format.cuh"
#include "attention/rows/widen_params.cuh"
#include "ptx/dependent_launch.cuh"
#include "ptx/registers.cuh"
#include "tile/e4m3.cuh"

namespace fa2 {

/// A row of one head.
struct WidenedRow {
  int entry;
  int row;
  int head;
};

/// Widens 16 elements. Bytes 0 to 3 give elements 0 and 2 in one register, 1 and 3 in the other.
template <class Config>
FA2_DEVICE void widen_chunk(const void* from, u16* to) {
  const ptx::Vector16 bytes = ptx::ld_global_v4(from);
  FA2_UNROLL
  for (int i = 0; i < 4; i += 2) {
    ptx::Vector16 wide;
    FA2_UNROLL
    for (int j = 0; j < 2; ++j) {
      const auto w = widen<typename Config::Element, Config::converts_e4m3>(bytes.word[i + j]);
      wide.word[2 * j] = ptx::prmt(w.even, w.odd, 0x5410);
      wide.word[2 * j + 1] = ptx::prmt(w.even, w.odd, 0x7632);
    }
    ptx::st_global_v4(to + 4 * i, wide);
  }
}

/// Runs one thread of K or V. `index` counts 16 columns of kDim, head by head, row by row.
template <class Config, int kDim>
FA2_DEVICE void widen_row(const WidenParams& params, const void* data, const Strides& strides, void* to,
                          i64 index) {
  constexpr int kChunks = kDim / 16;
  const int chunk = static_cast<int>(index % kChunks);
  const i64 number = index / kChunks, row_number = number / params.heads;
  const WidenedRow at{static_cast<int>(row_number / params.rows), static_cast<int>(row_number % params.rows),
                      static_cast<int>(number % params.heads)};
  u16* const wide = static_cast<u16*>(to) + index * 16;
  if constexpr (Config::page_size > 0) {
    const SequenceShape shape = shape_of<Config>(params.attention, at.entry);
    if (at.row >= shape.seqlen_k) return;  // as in any cache, these rows may hold anything
    const auto rows = KeyRows<Config, kDim / 2>::of(params.attention, data, strides, shape, at.head);
    widen_chunk<Config>(rows.data + rows.offset(at.row) + 8 * chunk, wide);
  } else {
    const auto rows = head_rows<kDim / 2>(data, strides, at.entry, at.head, 0);
    widen_chunk<Config>(rows.row(at.row) + 8 * chunk, wide);
  }
}

template <class Config>
FA2_DEVICE void widen_keys(const WidenParams& params) {
  const AttentionParams& attention = params.attention;
  const i64 rows = static_cast<i64>(params.entries) * params.rows * params.heads;
  const i64 of_keys = rows * (Config::head_dim / 16), of_values = rows * (Config::head_dim_v / 16);
  const i64 thread = static_cast<i64>(ptx::block_index()) * (Config::warps * 32) + ptx::thread_index();
  ptx::launch_dependents();
  ptx::wait_for_launches_before();
  if (thread < of_keys)
    widen_row<Config, Config::head_dim>(params, attention.k, attention.k_strides, params.keys, thread);
  else if (thread < of_keys + of_values)
    widen_row<Config, Config::head_dim_v>(params, attention.v, attention.v_strides, params.values,
                                          thread - of_keys);
}

}  // namespace fa2
