// Split KV: thread blocks compute splits of a tile, over disjoint keys, without waiting for one another. Each
// stores its normalised partial output and its sum. The last one to finish merges all of them.
#pragma once

#include "attention/common/tile_schedule.cuh"
#include "attention/forward/part_merge.cuh"
#include "attention/forward/split_tiles.cuh"
#include "ptx/atomic.cuh"

namespace fa2 {

/// A team's rows in one split of a tile. A team is a whole block or a warpgroup.
///
/// A block shares at most its first tile with earlier blocks and its last tile with later ones, so it stores
/// at most two splits. It has two slots; the second is for the tile that it begins.
/// With fixed split boundaries, the slots of a tile's splits belong to the block that begins the tile. Tiles
/// whose splits all begin in one block use slots of their own, one tile after the other.
///
/// `Team` provides `warps`, `rows` per tile, its `number`, the block's number of `teams`, sync(), and warp():
/// the calling warp's index.
template <class Config, class Team>
struct TilePart {
  static constexpr bool splits = Config::schedule == kSplitKeys, has_fixed_borders = Config::batch_invariant;
  const AttentionParams& params;
  const WorkShares& shares;
  const SequenceTile& tile;
  Team team;

  FA2_DEVICE bool is_of_several() const { return splits && tile.part.count > 1; }
  FA2_DEVICE bool is_first() const { return !splits || index() == 0; }

  FA2_DEVICE int first_row() const { return tile.at.q_tile * Config::tile_m + Team::rows * team.number; }
  FA2_DEVICE int row_count() const {
    const int left = tile.shape.rows - first_row();
    return left < Team::rows ? left : Team::rows;
  }
  /// Returns the address of the team's row in this split.
  FA2_DEVICE GlobalPartRow own_row(int row) const { return row_of_part(index(), row); }

  /// Must follow the team's stores. Returns whether all other splits of these rows are stored and readable.
  /// `known`: a word of shared memory for this team.
  FA2_DEVICE bool is_last_to_end(SharedAddress known) const {
    const u32 others = static_cast<u32>(tile.part.count - 1);
    if (ptx::thread_index() % (32 * Team::warps) == 0) {
      u32* const counter = shares.counters + place() * Team::teams + team.number;
      ptx::st_shared_u32(known, ptx::atom_inc_acq_rel_global_u32(counter, others));
    }
    team.sync();
    const int before = static_cast<int>(ptx::ld_shared_u32(known));
    // The shuffle tells the compiler that all lanes agree, so values that depend on the result stay uniform.
    return ptx::shfl_idx(before, 0) == static_cast<int>(others);
  }

  /// Merges all splits, one warp per row. `scale_log2`: as in OnlineSoftmax.
  FA2_DEVICE void merge(float scale_log2) const {
    for (int row = team.warp(); row < row_count(); row += Team::warps) {
      MergedRow<Config> merged{scale_log2};
      merged.add(PartsOfRow{*this, row, tile.part.count});
      merged.finish(params, tile.shape, tile.at, first_row() + row);
    }
    // The next tile's partial outputs reuse this memory.
    if constexpr (has_fixed_borders) team.sync();
  }

 private:
  struct PartsOfRow {
    static constexpr int at_once = 32 / MergedRow<Config>::chunks;
    const TilePart& of;
    int number;
    int count;

    FA2_DEVICE GlobalPartRow row(int part) const { return of.row_of_part(part, number); }
  };

  /// Returns a number that no other tile uses at the same time.
  FA2_DEVICE int place() const { return has_fixed_borders ? tile.part.place / kMostParts : tile.part.place; }
  /// Returns the index of this split in the tile.
  FA2_DEVICE int index() const {
    return has_fixed_borders ? tile.part.place % kMostParts
                             : static_cast<int>(ptx::block_index()) - tile.part.place;
  }

  /// Returns the address of the team's row in a split.
  FA2_DEVICE GlobalPartRow row_of_part(int part, int row) const {
    const i64 slot =
        has_fixed_borders ? place() * kMostParts + part : 2 * (place() + part) + (part == 0 ? 1 : 0);
    return {shares.parts +
            (slot * shares.part_rows + Team::rows * team.number + row) * PartRow<Config>::stride};
  }
};

}  // namespace fa2
