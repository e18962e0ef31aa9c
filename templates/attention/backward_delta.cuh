// delta = rowsum(dO * O) - dLSE, which both other kernels of the backward read (FlashAttention-2, Algorithm 2, line 4).
#pragma once

#include "attention/backward_sums.cuh"
#include "attention/head_rows.cuh"
#include "attention/score_gradient.cuh"
#include "attention/varlen_tiles.cuh"
#include "ptx/math.cuh"

namespace fa2 {

/// Eight neighbouring elements, as floats times those of another row.
template <class Element>
FA2_DEVICE float dot(const ptx::Vector16& a, const ptx::Vector16& b) {
  float sum = 0.0f;
  FA2_UNROLL
  for (int i = 0; i < 4; ++i) {
    const ptx::Pair x = ptx::cvt_f32_x2<Element>(a.word[i]), y = ptx::cvt_f32_x2<Element>(b.word[i]);
    sum = ptx::fma_rn(x.low, y.low, sum);
    sum = ptx::fma_rn(x.high, y.high, sum);
  }
  return sum;
}

template <class Config>
FA2_DEVICE ptx::Vector16 load_chunk(const u16* from) {
  if constexpr (Config::rows_are_16_byte_aligned) return ptx::ld_global_v4(from);
  return gather_chunk(from);
}

/// Of one row; every lane of the `kLanes` that share it has the sum.
template <class Config, int kLanes>
FA2_DEVICE float dot_of_rows(const u16* a, const u16* b) {
  float sum = 0.0f;
  for (int col = ptx::lane_index() % kLanes * 8; col < Config::head_dim_v; col += 8 * kLanes)
    sum += dot<typename Config::Element>(load_chunk<Config>(a + col), load_chunk<Config>(b + col));
  FA2_UNROLL
  for (int distance = 1; distance < kLanes; distance *= 2) sum += ptx::shfl_bfly(sum, distance);
  return sum;
}

/// Zeros where the dQ of rows [first_row, end_row) of a head will be summed, and in the turns at it.
template <class Config>
FA2_DEVICE void clear_sums(const BackwardParams& params, i64 head, int first_row, int end_row) {
  constexpr int kCols = sum_cols<(Config::head_dim + 15) / 16 * 16>;
  const i64 row = head * params.statistic_rows + first_row;
  float* const turns = params.delta + 2 * params.statistic_count;
  float* const sums = turns + params.statistic_count;
  for (int i = 4 * ptx::thread_index(); i < (end_row - first_row) * kCols; i += 4 * Config::warps * 32)
    ptx::st_global_v4(sums + row * kCols + i, ptx::Vector16{});
  for (int i = ptx::thread_index(); i < end_row - first_row; i += Config::warps * 32)
    ptx::st_global_f32(turns + row + i, 0.0f);
}

/// A block's rows are Config::tile_m of one head. Rows that fill up the last tile of a sum have P = 0.
template <class Config>
FA2_DEVICE void backward_delta(const BackwardParams& params) {
  constexpr int kLanes = 8;
  const AttentionParams& attention = params.attention;
  auto tiles = tiles_of<Config>(attention);
  if (Config::varlen && ptx::block_index() >= tiles.count()) return;
  const TileCoordinates at = tiles.at(ptx::block_index());
  const SequenceShape shape = shape_of<Config>(attention, at.batch);
  const i64 first_row = shape.q_begin;
  const auto o =
      head_rows<Config::head_dim_v>(attention.o, attention.o_strides, shape.q_entry, at.head, first_row);
  const auto d_o =
      head_rows<Config::head_dim_v>(params.d_o, params.d_o_strides, shape.q_entry, at.head, first_row);
  const i64 statistics = first_statistic<Config>(attention, shape, at.head);
  float* const delta = params.delta + first_delta(params, shape, at.head);
  const bool sums_dq = params.statistic_count != 0;
  const int rows = sums_dq ? params.statistic_rows : shape.seqlen_q;
  const int begin = at.q_tile * Config::tile_m;
  const int end = begin + Config::tile_m < rows ? begin + Config::tile_m : rows;
  if (sums_dq)
    clear_sums<Config>(params, static_cast<i64>(shape.q_entry) * attention.heads_q + at.head, begin, end);
  for (int first = begin; first < end; first += Config::warps * 32 / kLanes) {
    const int row = first + ptx::thread_index() / kLanes;
    const bool exists = row < shape.seqlen_q;
    // The lanes of a warp sum together, those beyond the last row what nobody stores.
    const int read = exists ? row : 0;
    const float sum = dot_of_rows<Config, kLanes>(o.data + read * o.stride, d_o.data + read * d_o.stride);
    if (row >= end || ptx::lane_index() % kLanes != 0) continue;
    const float d_lse =
        params.d_lse == nullptr || !exists ? 0.0f : ptx::ld_global_f32(params.d_lse + statistics + row);
    ptx::st_global_f32(delta + row, exists ? sum - d_lse : 0.0f);
    if (!sums_dq) continue;
    const float lse = exists ? ptx::ld_global_f32(attention.lse + statistics + row) : ptx::infinity();
    ptx::st_global_f32(delta + params.statistic_count + row, exponent_offset(lse));
  }
}

}  // namespace fa2
