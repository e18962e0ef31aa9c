// Split KV: thread blocks compute splits of a tile, over disjoint keys. Each stores its normalised partial
// output and its sum. The last one to finish merges them, with those that had nothing else to do and have
// waited for it. None has to wait for another: their waits are short and end.
#pragma once

#include "attention/common/tile_schedule.cuh"
#include "attention/forward/part_merge.cuh"
#include "attention/forward/split_tiles.cuh"
#include "ptx/atomic.cuh"
#include "ptx/flag.cuh"

namespace fa2 {

/// All warps of the block, as one team.
template <class Config>
struct BlockTeam {
  static constexpr int warps = Config::warps, rows = Config::tile_m, teams = 1, number = 0;
  FA2_DEVICE static void sync() { ptx::bar_sync(); }
  FA2_DEVICE static int warp() { return ptx::warp_index(); }
};

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
  FA2_DEVICE GlobalPartRow own_row(int row) const { return parts_of_row(row).row(index()); }

  /// Merges all splits of the team's rows, if they are stored or soon will be; otherwise a later team does.
  /// Must follow the team's stores. `known`: a word of shared memory for this team. `scale_log2`: as in
  /// OnlineSoftmax.
  FA2_DEVICE void merge(SharedAddress known, float scale_log2) const {
    const bool is_leader = ptx::thread_index() % (32 * Team::warps) == 0;
    if (is_leader) ptx::st_shared_u32(known, arrive() ? 1 : 0);
    team.sync();
    // The shuffle tells the compiler that all lanes agree, so values that depend on the result stay uniform.
    const bool all_are_stored = ptx::shfl_idx(static_cast<int>(ptx::ld_shared_u32(known)), 0) != 0;
    if (all_are_stored) {
      if constexpr (has_many_rows && lanes_for_few_parts<Config> != lanes_for_many_parts<Config>) {
        if (!has_few_rows() && tile.part.count <= kFewParts) {
          merge_rows<lanes_for_few_parts<Config>>(scale_log2);
        } else {
          merge_rows<lanes_for_many_parts<Config>>(scale_log2);
        }
      } else {
        merge_rows<lanes_for_many_parts<Config>>(scale_log2);
      }
      team.sync();  // before the counter and the partial outputs are used again
    }
    if (is_leader) leave(all_are_stored);
  }

 private:
  /// A counter has three fields: the splits that are stored, the warps' turns to merge, and the splits whose
  /// teams have left.
  static constexpr int kTurnShift = 9, kLeftShift = 23;
  static constexpr u32 kStored = (1u << kTurnShift) - 1;
  static_assert(kMostSplitBlocks == kStored, "all splits of a tile may be stored");

  /// Whether a warp merges several rows of few parts at once. Two turns of each warp are no reason to compile it.
  static constexpr bool has_many_rows = Team::rows > 2 * Team::warps;

  /// Returns whether the last team merges all rows in one turn.
  FA2_DEVICE bool has_few_rows() const { return row_count() <= Team::warps; }
  /// Returns whether teams that have nothing else to do wait for the last one and merge with it. With fixed
  /// borders a team may have more splits of the same tile.
  FA2_DEVICE bool merge_together() const { return !has_fixed_borders && !has_few_rows(); }

  FA2_DEVICE u32* counter() const { return shares.counters + place() * Team::teams + team.number; }

  /// Returns how long to wait for the last team, which would otherwise merge alone: for longer the more it has to
  /// merge. A poll takes about 0.6 us.
  FA2_DEVICE int most_polls() const {
    constexpr int kLeast = 32, kFloats = 1024;  // that one team adds up during a poll
    return kLeast + tile.part.count * row_count() * PartRow<Config>::cols / kFloats;
  }

  /// Counts this split as stored. Returns whether all are, if need be after a wait.
  FA2_DEVICE bool arrive() const {
    const u32 count = static_cast<u32>(tile.part.count);
    const u32 before = ptx::atom_add_acq_rel_global_u32(counter(), 1) & kStored;
    if (before + 1 == count) return true;
    const bool range_ends_here = index() + 1 < tile.part.count;
    return merge_together() && range_ends_here &&
           ptx::poll_global_u32(counter(), kStored, count, most_polls());
  }

  /// The last one to leave returns the counter to 0.
  FA2_DEVICE void leave(bool has_merged) const {
    if (!merge_together()) {
      if (has_merged) ptx::st_release_global_u32(counter(), 0);
      return;
    }
    const u32 before = ptx::atom_add_acq_rel_global_u32(counter(), 1u << kLeftShift) >> kLeftShift;
    if (before + 1 == static_cast<u32>(tile.part.count)) ptx::st_release_global_u32(counter(), 0);
  }

  /// Takes the warp's next turn to merge rows. Lane 0 receives it, for turn_of().
  FA2_DEVICE u32 take_turn() const {
    return ptx::lane_index() == 0 ? ptx::atom_add_global_u32(counter(), 1u << kTurnShift) : 0;
  }
  FA2_DEVICE static int turn_of(u32 taken) {
    return ptx::shfl_idx(static_cast<int>((taken & ((1u << kLeftShift) - 1)) >> kTurnShift), 0);
  }

  /// Merges rows until all have been taken by this or another team. Of few rows, each warp takes its own.
  template <int kLanes>
  FA2_DEVICE void merge_rows(float scale_log2) const {
    const bool takes_turns = !has_few_rows();
    int turn = takes_turns ? turn_of(take_turn()) : team.warp();
    while (turn * MergedRow<Config, kLanes>::rows_of_warp < row_count()) {
      const u32 next = takes_turns ? take_turn() : 0;  // its latency overlaps the merge
      merge_turn<kLanes>(turn, scale_log2);
      if (!takes_turns) return;
      turn = turn_of(next);
    }
  }

  /// Merges the rows of one turn.
  template <int kLanes>
  FA2_DEVICE void merge_turn(int turn, float scale_log2) const {
    using Row = MergedRow<Config, kLanes>;
    const int first = turn * Row::rows_of_warp, row = first + Row::number();
    if (first >= row_count()) return;
    Row merged{scale_log2};
    merged.add(parts_of_row(row < row_count() ? row : first));
    if (row < row_count()) merged.finish(params, tile.shape, tile.at, first_row() + row);
  }

  /// All splits of a row, or of its columns from some column on.
  struct PartsOfRow {
    float* begin;
    int stride;  ///< distance between splits; floats
    int count;

    FA2_DEVICE PartsOfRow from_column(int col) const { return {begin + col, stride, count}; }
    FA2_DEVICE GlobalPartRow row(int part) const {
      float* const slot = begin + static_cast<i64>(part) * stride;
      return {part == 0 && !has_fixed_borders ? slot + stride / 2 : slot};
    }
  };

  /// Returns a number that no other tile uses at the same time.
  FA2_DEVICE int place() const { return has_fixed_borders ? tile.part.place / kMostParts : tile.part.place; }
  /// Returns the index of this split in the tile.
  FA2_DEVICE int index() const {
    return has_fixed_borders ? tile.part.place % kMostParts
                             : static_cast<int>(ptx::block_index()) - tile.part.place;
  }

  FA2_DEVICE PartsOfRow parts_of_row(int row) const {
    constexpr int kSlots = has_fixed_borders ? kMostParts : 2;  // of a place
    const i64 rows = static_cast<i64>(place()) * kSlots * shares.part_rows + Team::rows * team.number + row;
    const int slots_of_part = has_fixed_borders ? 1 : 2;
    return {shares.parts + rows * PartRow<Config>::stride,
            slots_of_part * static_cast<int>(shares.part_rows) * PartRow<Config>::stride, tile.part.count};
  }
};

}  // namespace fa2
