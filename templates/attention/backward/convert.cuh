// The dq_convert kernel after the sm90 dq_dk_dv kernel: scales and rounds the dQ accumulator.
//
// Launch: one thread block per query tile and head, and more before these that merge the parts of key tiles
// (key_parts.cuh).
// Block: a thread loads what one consumer thread of dq_dk_dv accumulated; the block stores dQ through shared
// memory, or in float32 straight from registers.
#pragma once

#include "attention/backward/gradient_rows.cuh"
#include "attention/backward/key_parts.cuh"
#include "attention/backward/sums.cuh"
#include "attention/common/varlen_tiles.cuh"
#include "ptx/barrier.cuh"
#include "ptx/dependent_launch.cuh"
#include "ptx/stmatrix.cuh"

namespace fa2 {

template <class Config>
FA2_DEVICE void backward_convert(const BackwardParams& params) {
  using Element = typename Config::Element;
  constexpr int kCols = (Config::head_dim + 15) / 16 * 16;
  using Sums = QuerySums<Config::tile_m, kCols>;
  static_assert(Sums::warpgroups * 4 == Config::warps, "threads are those that summed");
  const AttentionParams& attention = params.attention;
  ptx::wait_for_launches_before();
  if (ptx::block_index() < params.merge_blocks) return merge_parts<Config>(params, ptx::block_index());
  const u32 tile_number = ptx::block_index() - params.merge_blocks;
  auto tiles = tiles_of<Config>(attention);
  if (Config::varlen && tile_number >= tiles.count()) return;
  const TileCoordinates at = tiles.at(tile_number);
  const SequenceShape shape = shape_of<Config>(attention, at.batch);
  const i64 head = static_cast<i64>(shape.q_entry) * attention.heads_q + at.head;
  const i64 sum_tile =
      head * Sums::tiles(params.statistic_rows) + first_sum_tile(shape, at.batch, Config::tile_m) + at.q_tile;
  const int warpgroup = ptx::warp_index() / 4, warp = ptx::warp_index() % 4;
  const int tile_row = at.q_tile * Config::tile_m;
  const auto rows_of_tile = [&] {
    return gradient_rows<Config::float32_dq, Config::head_dim>(
        params.dq, params.dq_strides, shape.q_entry, at.head, static_cast<i64>(shape.q_begin) + tile_row);
  };
  const SharedTile<Config::tile_m, kCols> tile{ptx::dynamic_shared()};
  FA2_UNROLL
  for (int m = 0; m < Sums::m_tiles; ++m) {
    const int m_tile = warpgroup * Sums::m_tiles + m;
    const float* const from = Sums::address(params, sum_tile, m_tile);
    typename Sums::Accumulators dq;
    for_each_four(dq,
                  [&](float(&value)[4], int j) { ptx::ld_global_v4_f32(from + j * Sums::stride, value); });
    for_each_score(dq, [&](float& value) { value *= attention.scale; });
    const int warp_row = 64 * m_tile + 16 * warp;
    if constexpr (Config::float32_dq) {
      if constexpr (Sums::transposed)
        store_transposed_floats(rows_of_tile(), dq, warp_row, RowsBefore{shape.seqlen_q - tile_row});
      else
        store_floats<Config::rows_are_16_byte_aligned>(rows_of_tile(), dq, 1.0f, warp_row,
                                                       RowsBefore{shape.seqlen_q - tile_row});
    } else if constexpr (!Sums::transposed) {
      round_into_tile<Element>(tile, warp_row, dq);
    } else if (warp_row < kCols) {
      FA2_UNROLL
      for (int k = 0; k < Config::tile_m / 16; ++k)
        ptx::stmatrix_x4_trans(tile.template block_address<BlockOrder::across>(16 * k, warp_row),
                               round_to_operand_a<Element>(dq, k).pair[0]);
    }
  }
  if constexpr (!Config::float32_dq) {
    ptx::bar_sync();
    const auto destination = rows_of_tile();
    for (int row = 16 * ptx::warp_index(); row < Config::tile_m; row += 16 * Config::warps)
      store_tile<Config::rows_are_16_byte_aligned, 16>(destination, tile, row,
                                                       RowsBefore{shape.seqlen_q - tile_row});
  }
}

}  // namespace fa2
