// The dq_convert kernel after the sm80 dq_dk_dv kernel: scales and rounds the dQ accumulator.
//
// Launch: one thread block per query tile and head, and more before these that merge the parts of key tiles
// (key_parts.cuh).
// Warp: converts 16 rows, through its own part of shared memory.
#pragma once

#include "attention/backward/gradient_rows.cuh"
#include "attention/backward/key_parts.cuh"
#include "attention/backward/sm80/store.cuh"
#include "attention/backward/sm80/sums.cuh"
#include "attention/common/tile_sides.cuh"

namespace fa2 {

template <class Config>
FA2_DEVICE void backward_convert_sm80(const BackwardParams& params) {
  using Sums = QuerySumsSm80<Config>;
  static_assert(Config::tile_m == 16 * Config::warps, "a warp has the rows of one row of blocks");
  const AttentionParams& attention = params.attention;
  if (ptx::block_index() < params.merge_blocks) return merge_parts<Config>(params, ptx::block_index());
  const TileCoordinates at =
      BatchedTiles<QuerySide>{{attention}}.at(ptx::block_index() - params.merge_blocks);
  const SequenceShape shape = shape_of<Config>(attention, at.batch);
  const int tile_row = at.q_tile * Config::tile_m, warp_row = 16 * ptx::warp_index();
  if (tile_row + warp_row >= shape.seqlen_q) return;
  const float* const from = Sums::address(params, shape, at.head, tile_row + warp_row, 0);
  AccumulatorTile<1, Sums::padded_dim / 8> dq;
  for_each_four(dq, [&](float(&value)[4], int j) { Sums::load(from + j * Sums::block_floats, value); });
  store_gradient<Config>(
      SharedTile<Config::tile_m, Sums::padded_dim>{ptx::dynamic_shared()}, warp_row, dq, attention.scale,
      gradient_rows<Config::float32_dq, Config::head_dim>(
          params.dq, params.dq_strides, shape.q_entry, at.head, static_cast<i64>(shape.q_begin) + tile_row),
      shape.seqlen_q - tile_row);
}

}  // namespace fa2
