// Split-KV: parts of a tile, over disjoint keys, by thread blocks that know nothing of one another. Each leaves its normalised
// output and its sum; whoever ends last merges all of them.
#pragma once

#include "attention/common/tile_schedule.cuh"
#include "attention/forward/part_merge.cuh"
#include "attention/forward/split_tiles.cuh"
#include "ptx/atomic.cuh"

namespace fa2 {

/// The rows of a part of a tile that a team of warps has: all of them, or a warpgroup's.
///
/// A thread block shares its first tile with those before it and its last with those after it, so that it leaves two parts
/// at most: the part of a tile that it begins comes second. With fixed borders all parts of a tile lie with who begins it,
/// apart from those of tiles that it computes alone one after the other. A row of a part is as MergedRow has it.
///
/// Team: warps, rows (of a tile), number and `teams` of the block's; its sync() and the warp() that asks.
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
  /// Where this part of a row of the team's is to be.
  FA2_DEVICE GlobalPartRow own_row(int row) const { return row_of_part(index(), row); }

  /// Once the team's rows are stored: whether all other parts of them have been, and may be read. `known` is a word of the
  /// team's.
  FA2_DEVICE bool is_last_to_end(SharedAddress known) const {
    const u32 others = static_cast<u32>(tile.part.count - 1);
    if (ptx::thread_index() % (32 * Team::warps) == 0) {
      u32* const counter = shares.counters + place() * Team::teams + team.number;
      ptx::st_shared_u32(known, ptx::atom_inc_acq_rel_global_u32(counter, others));
    }
    team.sync();
    const int before = static_cast<int>(ptx::ld_shared_u32(known));
    // Known to be the same in every lane: else nothing after it would be.
    return ptx::shfl_idx(before, 0) == static_cast<int>(others);
  }

  /// A warp a row. `scale_log2`: the softmax's.
  FA2_DEVICE void merge(float scale_log2) const {
    for (int row = team.warp(); row < row_count(); row += Team::warps) {
      MergedRow<Config> merged{scale_log2};
      merged.add(PartsOfRow{*this, row, tile.part.count});
      merged.finish(params, tile.shape, tile.at, first_row() + row);
    }
    // The next tile's parts come to where these are.
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

  /// One that no other tile has at the same time.
  FA2_DEVICE int place() const { return has_fixed_borders ? tile.part.place / kMostParts : tile.part.place; }
  /// Of this part among the tile's.
  FA2_DEVICE int index() const {
    return has_fixed_borders ? tile.part.place % kMostParts
                             : static_cast<int>(ptx::block_index()) - tile.part.place;
  }

  /// Of the team's, in the tile's part of that number.
  FA2_DEVICE GlobalPartRow row_of_part(int part, int row) const {
    const i64 slot =
        has_fixed_borders ? place() * kMostParts + part : 2 * (place() + part) + (part == 0 ? 1 : 0);
    return {shares.parts +
            (slot * shares.part_rows + Team::rows * team.number + row) * PartRow<Config>::stride};
  }
};

}  // namespace fa2
