// Shared memory of the backward kernels on mma.sync.
#pragma once

#include "tile/shared_tile.cuh"

namespace fa2 {

/// The tiles that a block owns (Q and dO, or K and V), then the ring for the tiles that it visits. Gradients
/// leave through the owned tiles.
template <class Config>
struct BackwardLayout {
  static constexpr int padded_dim = (Config::head_dim + 15) / 16 * 16;
  static constexpr int padded_dim_v = (Config::head_dim_v + 15) / 16 * 16;
  using OwnTile = SharedTile<Config::tile_m, padded_dim>;
  using OwnTileV = SharedTile<Config::tile_m, padded_dim_v>;
  using InnerTile = SharedTile<Config::tile_n, padded_dim>;
  using InnerTileV = SharedTile<Config::tile_n, padded_dim_v>;

  static constexpr int tiles_bytes = InnerTile::bytes + InnerTileV::bytes;
  /// LSE and delta of a query block, if the block owns keys.
  static constexpr int statistics_bytes = Config::owns_keys ? 8 * Config::tile_n : 0;
  static constexpr int slot_bytes = tiles_bytes + statistics_bytes;
  static constexpr int ring_start = OwnTile::bytes + OwnTileV::bytes;
  /// dS of all keys, for two iterations, if key tiles accumulate dQ.
  using ScoreTile = SharedTile<Config::tile_m, Config::tile_n>;
  static constexpr int score_start = ring_start + Config::stages * slot_bytes;
  static constexpr int bytes = score_start + (Config::sums_dq ? 2 * ScoreTile::bytes : 0);
  static_assert(bytes == Config::shared_bytes,
                "the host launches with exactly the memory that the kernel lays out");
};

}  // namespace fa2
