// The Q operand of a warp. The warp reads it from shared memory in every iteration, or keeps it in registers.
#pragma once

#include "attention/common/shared_layout.cuh"
#include "ptx/barrier.cuh"
#include "tile/copy.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

template <class Config>
struct QueryOperand {
  using Tile = typename SharedLayout<Config>::QueryTile;
  static constexpr int m_tiles = Config::tile_m / (16 * Config::warps);
  static constexpr int steps = Tile::cols / 16;

  Tile tile;
  int first_row;  ///< first row of this warp in the tile
  OperandA<m_tiles> registers[Config::q_in_registers ? steps : 1];

  FA2_DEVICE void read_into_registers() {
    FA2_UNROLL
    for (int step = 0; step < steps; ++step) registers[step] = load(step);
  }

  FA2_DEVICE OperandA<m_tiles> step(int k) const {
    if constexpr (Config::q_in_registers) return registers[k];
    return load(k);
  }

 private:
  FA2_DEVICE OperandA<m_tiles> load(int step) const {
    if (are_bytes<Config> && !(are_latent_rows<Config> && 16 * step >= LatentRow::byte_cols))
      return load_operand_of_bytes<m_tiles>(tile, first_row, 16 * step);
    return load_operand_a<m_tiles>(tile, first_row, 16 * step);
  }
};

}  // namespace fa2
