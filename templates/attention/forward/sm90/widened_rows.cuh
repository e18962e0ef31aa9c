// Loads of 8-bit keys and values into the ring, which holds 16 bits: a warp reads rows into registers, widens them, and
// stores them.
//
// Rows of latents are multiplied by their factors, in float32, and rounded to bfloat16. With factors that are powers of two,
// as DeepSeek-V3.2's are, that is exact.
#pragma once

#include "attention/common/key_value_format.cuh"
#include "attention/forward/sm90/page_loads.cuh"

namespace fa2 {

/// A part of the columns of 8 rows, in registers: of a producer's there are few. Four lanes share a row.
template <class Config, class Tile>
struct RowsToWiden {
  using Element = typename Config::Element;
  static constexpr bool latent = are_latent_rows<Config>;
  static constexpr int group_cols = 64, lanes = group_cols / 16, rows = 32 / lanes;
  static constexpr int all_groups = latent ? LatentRow::byte_cols / group_cols : Tile::groups;
  static constexpr int row_bytes = latent ? LatentRow::words * 2 : all_groups * group_cols;
  static constexpr int parts = (all_groups + 3) / 4, groups = (all_groups + parts - 1) / parts;
  static_assert(Tile::group_cols == group_cols, "head dims are multiples of 64");

  ptx::Vector16 codes[groups];  ///< of the lane's 16 columns of each group
  float factor[2];              ///< of latents, for two groups each

  FA2_DEVICE static int row() { return ptx::lane_index() / lanes; }
  FA2_DEVICE static int lane() { return ptx::lane_index() % lanes; }

  /// Reads a part of the lane's row, or zeros if it does not exist. `from`: where the row begins.
  FA2_DEVICE void read(const u16* from, int part, bool exists) {
    *this = {};
    if (!exists) return;
    FA2_UNROLL
    for (int i = 0; i < groups; ++i)
      if (has(part, i))
        codes[i] = ptx::ld_global_v4(from + (part * groups + i) * (group_cols / 2) + 8 * lane());
    if constexpr (latent) {
      static_assert(groups * group_cols == 2 * LatentRow::group_cols, "a part has two factors");
      const auto* const factors = reinterpret_cast<const float*>(from + LatentRow::factors) + 2 * part;
      factor[0] = ptx::ld_global_f32(factors), factor[1] = ptx::ld_global_f32(factors + 1);
    }
  }

  /// Stores what read() has read, in a row of the tile.
  FA2_DEVICE void store(Tile tile, int tile_row, int part) const {
    FA2_UNROLL
    for (int n = 0; n < groups; ++n) {
      if (!has(part, n)) break;
      FA2_UNROLL
      for (int i = 0; i < 2; ++i) {
        const ptx::PairOfPairs a = widened(codes[n].word[2 * i], n), b = widened(codes[n].word[2 * i + 1], n);
        ptx::st_shared_v4(chunk(tile, tile_row, part * groups + n, i), {{a.low, a.high, b.low, b.high}});
      }
    }
  }

  /// Copies the columns of the lane's row that have 16 bits, or zeros.
  FA2_DEVICE static void copy_rotated(const u16* from, Tile tile, int tile_row, bool exists) {
    ptx::Vector16 eight[2]{};
    FA2_UNROLL
    for (int i = 0; i < 2; ++i)
      if (exists) eight[i] = ptx::ld_global_v4(from + LatentRow::rotated + 16 * lane() + 8 * i);
    FA2_UNROLL
    for (int i = 0; i < 2; ++i) ptx::st_shared_v4(chunk(tile, tile_row, all_groups, i), eight[i]);
  }

 private:
  FA2_DEVICE static bool has(int part, int group) {
    return all_groups % groups == 0 || part * groups + group < all_groups;
  }
  FA2_DEVICE static SharedAddress chunk(Tile tile, int tile_row, int group, int i) {
    return tile.chunk_address(tile_row, group * group_cols + 16 * lane() + 8 * i);
  }
  FA2_DEVICE ptx::PairOfPairs widened(u32 word, int group) const {
    if constexpr (!latent) return widen_in_order<Element>(word);
    return widen_times(word, factor[group * group_cols / LatentRow::group_cols]);
  }
};

}  // namespace fa2
