// Shared memory of the sm80 forward kernel.
#pragma once

#include "attention/common/key_value_format.cuh"

namespace fa2 {

/// Q lies first, then the K/V ring. If Q is kept in registers, the ring reuses its memory. The output tile
/// reuses everything.
template <class Config>
struct SharedLayout {
  static constexpr int padded_dim = (Config::head_dim + 15) / 16 * 16;
  static constexpr int padded_dim_v = (Config::head_dim_v + 15) / 16 * 16;
  using QueryTile = SharedTile<Config::tile_m, padded_dim>;
  using KeyTile = typename KeyValueFormat<Config>::template Tile<Config::head_dim>;
  using ValueTile =
      typename KeyValueFormat<Config>::template Tile<Config::values_in_keys ? Config::head_dim
                                                                            : Config::head_dim_v>;
  using OutputTile = SharedTile<Config::tile_m, padded_dim_v>;

  static constexpr int ring_start = Config::q_in_registers ? 0 : QueryTile::bytes;
  static constexpr int values_start = Config::values_in_keys ? 0 : KeyTile::bytes;  ///< in a slot
  static constexpr int slot_bytes = values_start + ValueTile::bytes;
  static constexpr int ring_end = ring_start + Config::stages * slot_bytes;
  static constexpr int bytes = ring_end > OutputTile::bytes
                                   ? (ring_end > QueryTile::bytes ? ring_end : QueryTile::bytes)
                               : OutputTile::bytes > QueryTile::bytes ? OutputTile::bytes
                                                                      : QueryTile::bytes;
};

}  // namespace fa2
