// Loads of 8-bit keys and values into the ring, which holds 16 bits. Each warp copies its rows to the slot by cp.async, and widens
// them there.
//
// Rows of latents are multiplied by their factors in float32, and rounded to bfloat16. The product is exact if the factor is a
// power of two.
#pragma once

#include "attention/common/key_value_format.cuh"
#include "attention/forward/sm90/page_loads.cuh"

namespace fa2 {

/// The rows of a KV block that one warp loads. Four lanes share a row, and a lane has rows 8 apart.
///
/// Codes take half of the memory of the widened columns. They lie at its end, in halves of groups of columns: with four groups,
///
///   half       0 1 2 3 4 5 6 7
///   codes of           0 1 2 3
///
/// Group g is widened into halves 2 g and 2 g + 1. The warp has read their codes before.
template <class Config, class Tile>
struct WidenedRows {
  using Element = typename Config::Element;
  static constexpr bool latent = are_latent_rows<Config>;
  static constexpr int group_cols = 64, lanes = group_cols / 16, rows_at_once = 32 / lanes;
  static constexpr int groups = latent ? LatentRow::byte_cols / group_cols : Tile::groups;
  static constexpr int row_bytes = latent ? LatentRow::bytes : groups * group_cols;
  static constexpr int rows = Tile::rows / loading_warps<Config>, passes = rows / rows_at_once;
  static_assert(Tile::group_cols == group_cols && rows % rows_at_once == 0, "lanes have whole rows");

  /// 16 codes of each of a lane's rows.
  struct Codes {
    ptx::Vector16 of_row[passes];
  };

  Tile tile;
  int first_row;
  float factor[passes];  ///< of each row's four factors of latents, the one with this lane's number

  FA2_DEVICE static int lane() { return ptx::lane_index() % lanes; }
  /// Returns the number of a lane's row in the tile.
  FA2_DEVICE int row(int pass) const { return first_row + pass * rows_at_once + ptx::lane_index() / lanes; }

  /// Starts to copy a row, or zeros if it does not exist. `from`: where it begins.
  FA2_DEVICE void start(int pass, const u16* from, bool exists) {
    const int bytes = exists ? 16 : 0;
    const char* const of_lane = reinterpret_cast<const char*>(from) + 16 * lane();
    FA2_UNROLL
    for (int group = 0; group < groups; ++group)
      ptx::cp_async_16_zfill(codes_at(group, pass), of_lane + group * group_cols, bytes);
    if constexpr (latent) {
      FA2_UNROLL
      for (int i = 0; i < 2; ++i)
        ptx::cp_async_16_zfill(chunk(groups, pass, i), from + LatentRow::rotated + 16 * lane() + 8 * i,
                               bytes);
      const auto* const factors = reinterpret_cast<const float*>(from + LatentRow::factors);
      factor[pass] = exists ? ptx::ld_global_f32(factors + lane()) : 0.0f;
    }
  }

  /// Waits for the copies, and widens them.
  FA2_DEVICE void finish() const {
    ptx::cp_async_commit_group();
    ptx::cp_async_wait_group<0>();
    constexpr int kUnrolled = groups % 3 == 0 ? 3 : 2;
    Codes codes = read(0);
    FA2_UNROLL_BY(kUnrolled)
    for (int group = 0; group < groups; ++group) {
      Codes next = codes;
      if (group + 1 < groups) next = read(group + 1);
      ptx::bar_warp_sync();  // all lanes have read what is written next
      write(codes, group);
      codes = next;
    }
  }

 private:
  /// Returns where the codes of a group lie.
  FA2_DEVICE SharedAddress codes_at(int group, int pass) const {
    const int half = groups + group, row_of_warp = row(pass) - first_row;
    return tile.base +
           static_cast<u32>(half / 2 * Tile::group_bytes + first_row * Tile::span +
                            half % 2 * rows * group_cols + row_of_warp * group_cols + 16 * lane());
  }
  /// Returns where eight of the lane's 16 columns of a group belong.
  FA2_DEVICE SharedAddress chunk(int group, int pass, int i) const {
    return tile.chunk_address(row(pass), group * group_cols + 16 * lane() + 8 * i);
  }

  FA2_DEVICE Codes read(int group) const {
    Codes codes;
    FA2_UNROLL
    for (int pass = 0; pass < passes; ++pass) codes.of_row[pass] = ptx::ld_shared_v4(codes_at(group, pass));
    return codes;
  }

  FA2_DEVICE void write(const Codes& codes, int group) const {
    FA2_UNROLL
    for (int pass = 0; pass < passes; ++pass) {
      const u32(&word)[4] = codes.of_row[pass].word;
      const float factor = factor_of(group, pass);
      const ptx::PairOfPairs a = widened(word[0], factor), b = widened(word[1], factor),
                             c = widened(word[2], factor), d = widened(word[3], factor);
      ptx::st_shared_v4(chunk(group, pass, 0), {{a.low, a.high, b.low, b.high}});
      ptx::st_shared_v4(chunk(group, pass, 1), {{c.low, c.high, d.low, d.high}});
    }
  }

  FA2_DEVICE float factor_of(int group, int pass) const {
    if constexpr (!latent) return 1;
    const int holder = ptx::lane_index() / lanes * lanes + group * group_cols / LatentRow::group_cols;
    return ptx::shfl_idx(factor[pass], holder);
  }
  FA2_DEVICE static ptx::PairOfPairs widened(u32 word, float factor) {
    if constexpr (!latent) return widen_in_order<Element>(word);
    return widen_times(word, factor);
  }
};

}  // namespace fa2
