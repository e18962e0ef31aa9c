// Epilogue: stores the normalised output and the log-sum-exp (FlashAttention-2, Algorithm 1, lines 12-15).
#pragma once

#include "attention/common/lse_base.cuh"
#include "attention/common/mask.cuh"
#include "attention/common/scheduler.cuh"
#include "attention/common/shared_layout.cuh"
#include "attention/common/sinks.cuh"
#include "attention/common/softmax.cuh"
#include "ptx/barrier.cuh"
#include "ptx/vector8.cuh"
#include "tile/copy.cuh"
#include "tile/float_rows.cuh"
#include "tile/put_rows.cuh"

namespace fa2 {

/// Returns the address of one output row. `row` counts the sequence's rows.
template <class Config>
FA2_DEVICE Stored<Config::float32_out>* output_row(const AttentionParams& params, const SequenceShape& shape,
                                                   const TileCoordinates& at, int row) {
  return static_cast<Stored<Config::float32_out>*>(params.o) +
         query_row<Config>(params, params.o_strides, shape, at, row);
}

/// Stores a warp's rows of O in float32, from registers. `first_row`: the warp's first row in the sequence. `first_col`: the column of
/// O at which `output` begins.
template <class Config, class Output>
FA2_DEVICE void store_float_output(const AttentionParams& params, const SequenceShape& shape,
                                   const TileCoordinates& at, int first_row, const Output& output,
                                   int first_col = 0) {
  FA2_UNROLL
  for (int m = 0; m < Output::m_tiles; ++m) {
    FA2_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + 16 * m + 8 * half + fragment_row();
      if (row >= shape.rows || !row_map_of<Config>(params).is_filled(row)) continue;
      const FloatRow<Config::rows_are_16_byte_aligned> to{output_row<Config>(params, shape, at, row)};
      put_row<Config::head_dim_v>(to, output, m, half, first_col);
    }
  }
}

/// Stores the warp's rows of the output tile, [warp_row, warp_row + 16 Output::m_tiles). All warps must call it.
template <class Config, class Output>
FA2_DEVICE void store_output(const AttentionParams& params, const SequenceShape& shape,
                             const TileCoordinates& at, int warp_row, const Output& output,
                             SharedAddress shared) {
  if constexpr (Config::float32_out)
    return store_float_output<Config>(params, shape, at, at.q_tile * Config::tile_m + warp_row, output);
  const typename SharedLayout<Config>::OutputTile tile{shared};
  ptx::bar_sync();  // the tile lies where other warps may still be reading K and V
  round_into_tile<typename Config::Element>(tile, warp_row, output);
  ptx::bar_warp_sync();
  const QueryRows<Config, Config::head_dim_v> rows{params, params.o, params.o_strides, shape, at};
  store_tile<Config::rows_are_16_byte_aligned, 16 * Output::m_tiles>(rows, tile, warp_row, rows);
}

/// Returns the address of one row's LSE. params.lse must not be null.
template <class Config>
FA2_DEVICE float* lse_of_row(const AttentionParams& params, const SequenceShape& shape,
                             const TileCoordinates& at, int row) {
  const RowMap<Config> row_map = row_map_of<Config>(params);
  const i64 first_head = (static_cast<i64>(shape.q_entry) * params.heads_q + at.head) * params.packing.heads;
  const int entry_rows = Config::varlen ? params.sequences.total_q : params.seqlen_q;
  return params.lse + (first_head + row_map.head(row)) * entry_rows + shape.q_begin + row_map.query(row);
}

/// Stores the LSE of the warp's rows. `first_row`: the warp's first row in the sequence.
template <class Config, int kM, class Element>
FA2_DEVICE void store_lse(const AttentionParams& params, const SequenceShape& shape,
                          const TileCoordinates& at, int first_row,
                          const OnlineSoftmax<kM, Element>& softmax) {
  if (params.lse == nullptr || fragment_col() != 0) return;
  FA2_UNROLL
  for (int m = 0; m < kM; ++m) {
    FA2_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + 16 * m + 8 * half + fragment_row();
      if (row >= shape.rows || !row_map_of<Config>(params).is_filled(row)) continue;
      ptx::st_global_f32(lse_of_row<Config>(params, shape, at, row),
                         softmax.log_sum_exp(m, half, params.empty_row_lse, LseUnit<Config>::of_log2));
    }
  }
}

/// Rounds and stores four columns of a row.
template <class Config>
FA2_DEVICE void store_four(u16* to, const float (&value)[4]) {
  using Element = typename Config::Element;
  const ptx::Vector8 rounded{
      {ptx::cvt_rn_x2<Element>(value[0], value[1]), ptx::cvt_rn_x2<Element>(value[2], value[3])}};
  if constexpr (Config::rows_are_16_byte_aligned) return ptx::st_global_v2(to, rounded);
  FA2_UNROLL
  for (int i = 0; i < 4; ++i)
    ptx::st_global_u16(to + i, static_cast<u16>(rounded.word[i / 2] >> (i % 2 * 16)));
}

}  // namespace fa2
