// The tiles that a backward block owns: from global memory, and their gradients back to it.
#pragma once

#include "ptx/barrier.cuh"
#include "tile/copy.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

/// In the group of the ring's first block. Rows that `exist` does not have are zeros.
template <class Config, class Tile, int kCols, class Rows>
FA2_DEVICE void load_own_tile(Tile tile, GlobalRows<kCols> rows, Rows exist) {
  load_tile<Config::warps * 32, Config::rows_are_16_byte_aligned>(tile, rows, exist);
}

/// Before they are written: where no block was visited, nobody has waited for their loads.
FA2_DEVICE void await_own_tiles() {
  ptx::cp_async_wait_group<0>();
  ptx::bar_sync();
}

/// A warp's rows, scaled and rounded, through those of its tile: nobody else reads them.
template <class Config, class Tile, int kM, int kN, int kCols>
FA2_DEVICE void store_gradient(Tile tile, int warp_row, AccumulatorTile<kM, kN>& gradient, float scale,
                               GlobalRows<kCols> destination, int row_count) {
  for_each_score(gradient, [&](float& value) { value *= scale; });
  round_into_tile<typename Config::Element>(tile, warp_row, gradient);
  ptx::bar_warp_sync();
  store_tile<Config::rows_are_16_byte_aligned, 16 * kM>(destination, tile, warp_row, row_count);
}

}  // namespace fa2
