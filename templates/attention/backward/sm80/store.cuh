// Loads and stores for the tiles that a backward block owns.
#pragma once

#include "ptx/barrier.cuh"
#include "tile/copy.cuh"
#include "tile/float_rows.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

/// Starts to load an owned tile, in the cp.async group of the ring's first block. Rows outside `exist` become
/// zeros.
template <class Config, class Tile, int kCols, class Rows>
FA2_DEVICE void load_own_tile(Tile tile, GlobalRows<kCols> rows, Rows exist) {
  load_tile<Config::warps * 32, Config::rows_are_16_byte_aligned>(tile, rows, exist);
}

/// Waits for the loads of owned tiles. It must precede writes to them, because without a visited block no
/// thread has waited.
FA2_DEVICE void await_own_tiles() {
  ptx::cp_async_wait_group<0>();
  ptx::bar_sync();
}

/// Scales, rounds and stores a warp's rows of a gradient. They pass through the warp's rows of `tile`, which
/// no other warp reads.
template <class Config, class Tile, int kM, int kN, int kCols>
FA2_DEVICE void store_gradient(Tile tile, int warp_row, AccumulatorTile<kM, kN>& gradient, float scale,
                               GlobalRows<kCols> destination, int row_count) {
  for_each_score(gradient, [&](float& value) { value *= scale; });
  round_into_tile<typename Config::Element>(tile, warp_row, gradient);
  ptx::bar_warp_sync();
  store_tile<Config::rows_are_16_byte_aligned, 16 * kM>(destination, tile, warp_row, RowsBefore{row_count});
}

/// Like the function above, but does not round, and leaves `tile` as it is.
template <class Config, class Tile, int kM, int kN, int kCols>
FA2_DEVICE void store_gradient(Tile, int warp_row, const AccumulatorTile<kM, kN>& gradient, float scale,
                               FloatRows<kCols> destination, int row_count) {
  store_floats<Config::rows_are_16_byte_aligned>(destination, gradient, scale, warp_row,
                                                 RowsBefore{row_count});
}

}  // namespace fa2
