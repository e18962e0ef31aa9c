// Where a backward block's tiles lie in shared memory.
#pragma once

#include "tile/shared_tile.cuh"

namespace fa2 {

/// The tiles that a block owns, Q and dO or K and V, and after them the ring of those that it goes over. Gradients leave
/// through the owned tiles.
template <class Config>
struct BackwardLayout {
  static constexpr int padded_dim = (Config::head_dim + 15) / 16 * 16;
  static constexpr int padded_dim_v = (Config::head_dim_v + 15) / 16 * 16;
  using OwnTile = SharedTile<Config::tile_m, padded_dim>;
  using OwnTileV = SharedTile<Config::tile_m, padded_dim_v>;
  using InnerTile = SharedTile<Config::tile_n, padded_dim>;
  using InnerTileV = SharedTile<Config::tile_n, padded_dim_v>;

  static constexpr int tiles_bytes = InnerTile::bytes + InnerTileV::bytes;
  /// LSE and delta of the queries that keys go over.
  static constexpr int statistics_bytes = Config::owns_keys ? 8 * Config::tile_n : 0;
  static constexpr int slot_bytes = tiles_bytes + statistics_bytes;
  static constexpr int ring_start = OwnTile::bytes + OwnTileV::bytes;
  /// Where dQ is summed: dS of all keys, of two steps.
  using ScoreTile = SharedTile<Config::tile_m, Config::tile_n>;
  static constexpr int score_start = ring_start + Config::stages * slot_bytes;
  static constexpr int bytes = score_start + (Config::sums_dq ? 2 * ScoreTile::bytes : 0);
  static_assert(bytes == Config::shared_bytes,
                "the host launches with exactly the memory that the kernel lays out");
};

}  // namespace fa2
