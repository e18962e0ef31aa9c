// The Q operand of a warp. The warp reads it from shared memory in every iteration, or keeps it in registers.
#pragma once

#include "attention/common/shared_layout.cuh"
#include "tile/byte_queries.cuh"
#include "tile/copy.cuh"

namespace fa2 {

template <class Config>
struct QueryOperand {
  using Tile = typename SharedLayout<Config>::QueryTile;
  static constexpr int m_tiles = Config::tile_m / (16 * Config::warps);
  static constexpr int steps = Tile::cols / 16;
  /// The first steps, whose products are with keys of 8 bits.
  static constexpr int byte_steps = are_latent_rows<Config> ? LatentRow::byte_cols / 16
                                    : are_bytes<Config>     ? steps
                                                            : 0;

  Tile tile;
  int first_row;  ///< first row of this warp in the tile
  OperandA<m_tiles> registers[Config::q_in_registers ? steps : 1];
  RowScales<typename Config::Element, m_tiles> scales;  ///< of queries for keys of 8 bits

  /// Rewrites a loaded tile's queries for keys of 8 bits. `kSharers` warps of the block share the warp's rows, and the work; `sharer`:
  /// its number among them. All warps of the block must call it.
  template <int kSharers>
  FA2_DEVICE void prepare(int sharer) {
    if constexpr (byte_steps > 0) {
      scales.find(tile, first_row, byte_steps);
      sync<kSharers>();  // all have read what is overwritten now
      FA2_NO_UNROLL
      for (int step = sharer; step < byte_steps; step += kSharers)
        order_like_bytes(tile, first_row, 16 * step, scales);
      sync<kSharers>();
    }
  }

  /// Makes sums of products with these queries scores.
  template <class Scores>
  FA2_DEVICE void unscale(Scores& scores) const {
    if constexpr (byte_steps == steps) scales.unscale(scores);  // add_latent_scores() scales its own
  }

  FA2_DEVICE void read_into_registers() {
    FA2_UNROLL
    for (int step = 0; step < steps; ++step) registers[step] = load(step);
  }

  FA2_DEVICE OperandA<m_tiles> step(int k) const {
    if constexpr (Config::q_in_registers) return registers[k];
    return load(k);
  }

 private:
  template <int kSharers>
  FA2_DEVICE static void sync() {
    if constexpr (kSharers > 1) {
      ptx::bar_sync();
    } else {
      ptx::bar_warp_sync();
    }
  }

  FA2_DEVICE OperandA<m_tiles> load(int step) const {
    return load_operand_a<m_tiles>(tile, first_row, 16 * step);
  }
};

}  // namespace fa2
