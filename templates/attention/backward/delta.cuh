// The delta kernel: delta = rowsum(dO * O) - dLSE, which the other backward kernels read (FlashAttention-2,
// Algorithm 2, line 4).
//
// Launch: one thread block per query tile and head.
// Block: eight lanes per row. If key tiles accumulate dQ, the block also prepares LSE and clears its part of
// the accumulator.
#pragma once

#include "attention/backward/score_gradient.cuh"
#include "attention/backward/sums.cuh"
#include "attention/common/varlen_tiles.cuh"
#include "ptx/dependent_launch.cuh"
#include "ptx/math.cuh"

namespace fa2 {

/// Returns the dot product of two 16-byte chunks.
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

/// Returns the dot product of two rows, in each of the `kLanes` lanes that share them.
template <class Config, int kLanes>
FA2_DEVICE float dot_of_rows(const u16* a, const u16* b) {
  float sum = 0.0f;
  for (int col = ptx::lane_index() % kLanes * 8; col < Config::head_dim_v; col += 8 * kLanes)
    sum += dot<typename Config::Element>(load_chunk<Config>(a + col), load_chunk<Config>(b + col));
  FA2_UNROLL
  for (int distance = 1; distance < kLanes; distance *= 2) sum += ptx::shfl_bfly(sum, distance);
  return sum;
}

/// Clears the dQ accumulator and its semaphores for `rows` rows. `first_row` counts the rows of all heads.
template <class Config>
FA2_DEVICE void clear_sums(const BackwardParams& params, i64 first_row, int rows) {
  constexpr int kCols = sum_cols<(Config::head_dim + 15) / 16 * 16>;
  float* const turns = params.delta + 2 * params.statistic_count;
  float* const sums = turns + params.statistic_count + first_row * kCols;
  for (int i = 4 * ptx::thread_index(); i < rows * kCols; i += 4 * Config::warps * 32)
    ptx::st_global_v4(sums + i, ptx::Vector16{});
  for (int i = ptx::thread_index(); i < rows; i += Config::warps * 32)
    ptx::st_global_f32(turns + first_row + i, 0.0f);
}

/// Computes Config::tile_m rows of one head. A sequence's last block also writes the padding rows of its last
/// dQ tile, where P = 0.
template <class Config>
FA2_DEVICE void backward_delta(const BackwardParams& params) {
  constexpr int kLanes = 8;
  const AttentionParams& attention = params.attention;
  ptx::launch_dependents();
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
  const bool sums_dq = params.statistic_count != 0;
  const i64 first_of_delta = first_delta_of(params, shape, at);
  float* const delta = params.delta + first_of_delta;
  const int filled_up =
      sums_dq ? (shape.seqlen_q + params.sum_tile - 1) / params.sum_tile * params.sum_tile : shape.seqlen_q;
  const int begin = at.q_tile * Config::tile_m;
  const int end = begin + Config::tile_m < shape.seqlen_q ? begin + Config::tile_m : filled_up;
  if (sums_dq) clear_sums<Config>(params, first_of_delta + begin, end - begin);
  for (int first = begin; first < end; first += Config::warps * 32 / kLanes) {
    const int row = first + ptx::thread_index() / kLanes;
    const bool exists = row < shape.seqlen_q;
    // All lanes must take part in the sum. No lane stores a sum of a row that does not exist.
    const int read = exists ? row : 0;
    const float sum = dot_of_rows<Config, kLanes>(o.data + read * o.stride, d_o.data + read * d_o.stride);
    if (row >= end || ptx::lane_index() % kLanes != 0) continue;
    const float d_lse =
        params.d_lse == nullptr || !exists ? 0.0f : ptx::ld_global_f32(params.d_lse + statistics + row);
    ptx::st_global_f32(delta + row, exists ? sum - d_lse * LseUnit<Config>::of_natural : 0.0f);
    if (!sums_dq) continue;
    const float lse = exists ? ptx::ld_global_f32(attention.lse + statistics + row) : ptx::infinity();
    ptx::st_global_f32(delta + params.statistic_count + row, exponent_offset<Config>(lse));
  }
}

}  // namespace fa2
