// The tiles of sequences whose lengths only the device knows.
#pragma once

#include "attention/common/tile_sides.cuh"
#include "ptx/barrier.cuh"
#include "ptx/math.cuh"

namespace fa2 {

/// Lane i's sum of the values of lanes 0 to i.
FA2_DEVICE u32 inclusive_sum(u32 value) {
  FA2_UNROLL
  for (int distance = 1; distance < 32; distance *= 2) {
    const int before = ptx::shfl_idx(static_cast<int>(value), ptx::lane_index() - distance);
    if (ptx::lane_index() >= distance) value += static_cast<u32>(before);
  }
  return value;
}

FA2_DEVICE u32 last_lane(u32 value) {
  return static_cast<u32>(ptx::shfl_idx(static_cast<int>(value), 31));
}

/// Sequences whose tiles go over many rows of the other side come first, so that no long tile begins last: sorted by the
/// power of two of those, and among equals by the batch. A sequence's tiles follow tile_in_sections(). The lanes of a warp
/// find them together; each looks at one sequence of 32.
template <class Config, class Side>
class VarlenTiles {
 public:
  FA2_DEVICE explicit VarlenTiles(const Side& side) : side_(side) {
    u32 tiles = 0, classes = 0;
    for (int first = 0; first < sequences(); first += 32) {
      const Sequence sequence = sequence_at(first);
      tiles += sequence.tiles;
      classes |= sequence.tiles > 0 ? sequence.size_class : 0;
    }
    count_ = last_lane(inclusive_sum(tiles * heads()));
    FA2_UNROLL
    for (int mask = 1; mask < 32; mask *= 2)
      classes |= static_cast<u32>(ptx::shfl_idx(static_cast<int>(classes), ptx::lane_index() ^ mask));
    later_classes_ = classes;
    if (count_ > 0) look_at_next_class();
  }

  FA2_DEVICE u32 count() const { return count_; }

  /// `tile` is below count(), and not below the one asked for before.
  FA2_DEVICE TileCoordinates at(u32 tile) {
    while (tile >= last_lane(end_)) {
      if (first_batch_ + 32 < sequences()) {
        look_at(first_batch_ + 32);
      } else {
        look_at_next_class();
      }
    }
    const int lane = ptx::popc(ptx::vote_ballot(end_ <= tile));
    const int tiles = ptx::shfl_idx(static_cast<int>(tiles_), lane);
    const u32 end = static_cast<u32>(ptx::shfl_idx(static_cast<int>(end_), lane));
    const TileCoordinates found = tile_in_sections(tile + static_cast<u32>(tiles * side_.heads()) - end,
                                                   tiles, side_.heads(), side_.heads_per_section());
    return {Side::in_order(found.q_tile, tiles), found.head, first_batch_ + lane};
  }

 private:
  struct Sequence {
    u32 tiles;       ///< of one head
    u32 size_class;  ///< one bit, a higher one for more rows of the other side
  };

  Side side_;
  u32 count_;
  u32 later_classes_;
  u32 size_class_;
  int first_batch_;  ///< of the sequences that the lanes look at
  u32 tiles_;        ///< of this lane's sequence and one head; 0 in another class
  u32 end_ = 0;      ///< the number of the tile after those of this lane's sequence

  FA2_DEVICE int sequences() const { return side_.attention().sequences.batch; }
  FA2_DEVICE u32 heads() const { return static_cast<u32>(side_.heads()); }

  FA2_DEVICE Sequence sequence_at(int first_batch) const {
    const int batch = first_batch + ptx::lane_index();
    if (batch >= sequences()) return {0, 0};
    const SequenceShape shape = shape_of<Config>(side_.attention(), batch);
    const int halvings = ptx::clz(static_cast<u32>(Side::length_of_other(shape))) -
                         ptx::clz(static_cast<u32>(side_.longest_other()));
    return {static_cast<u32>(Side::rows(shape) + Config::tile_m - 1) / Config::tile_m,
            0x80000000u >> halvings};
  }

  FA2_DEVICE void look_at_next_class() {
    size_class_ = 0x80000000u >> ptx::clz(later_classes_);
    later_classes_ &= ~size_class_;
    look_at(0);
  }

  FA2_DEVICE void look_at(int first_batch) {
    const Sequence sequence = sequence_at(first_batch);
    first_batch_ = first_batch;
    tiles_ = sequence.size_class == size_class_ ? sequence.tiles : 0;
    end_ = last_lane(end_) + inclusive_sum(tiles_ * heads());
  }
};

/// What a kernel numbers its tiles by.
template <class Config, class Side>
FA2_DEVICE auto tiles_of_side(const Side& side) {
  if constexpr (Config::varlen) {
    return VarlenTiles<Config, Side>(side);
  } else {
    return BatchedTiles<Side>{side};
  }
}

/// Where their rows are queries.
template <class Config>
FA2_DEVICE auto tiles_of(const AttentionParams& params) {
  return tiles_of_side<Config>(QuerySide{params});
}

/// Where they are keys.
template <class Config>
FA2_DEVICE auto key_tiles_of(const BackwardParams& params) {
  return tiles_of_side<Config>(KeySide{params});
}

}  // namespace fa2
