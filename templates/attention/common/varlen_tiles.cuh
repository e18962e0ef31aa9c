// Tiles of sequences whose lengths only the device knows.
#pragma once

#include "attention/common/tile_sides.cuh"
#include "ptx/barrier.cuh"
#include "ptx/math.cuh"

namespace fa2 {

/// Returns, in lane i, the sum of the values in lanes 0 to i.
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

FA2_DEVICE u32 largest_of_lanes(u32 value) {
  FA2_UNROLL
  for (int mask = 1; mask < 32; mask *= 2) {
    const u32 other = static_cast<u32>(ptx::shfl_idx(static_cast<int>(value), ptx::lane_index() ^ mask));
    value = other > value ? other : value;
  }
  return value;
}

/// Orders sequences by the length of their other side, longest first, so that no long tile begins last.
/// Lengths compare by their power of two; sequences of equal power follow batch order. A sequence's tiles
/// follow tile_in_sections(). All lanes of a warp search together, one sequence per lane, 32 at a time.
template <class Config, class Side>
class VarlenTiles {
 public:
  FA2_DEVICE explicit VarlenTiles(const Side& side) : side_(side) {
    u32 tiles = 0, classes = 0;
    for (int first = 0; first < sequences(); first += 32 * kAtOnce) {
      Sequence sequence[kAtOnce];
      FA2_UNROLL
      for (int i = 0; i < kAtOnce; ++i) sequence[i] = sequence_at(first + 32 * i);
      FA2_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        tiles += sequence[i].tiles;
        classes |= sequence[i].tiles > 0 ? sequence[i].size_class : 0;
      }
    }
    count_ = last_lane(inclusive_sum(tiles * heads()));
    FA2_UNROLL
    for (int mask = 1; mask < 32; mask *= 2)
      classes |= static_cast<u32>(ptx::shfl_idx(static_cast<int>(classes), ptx::lane_index() ^ mask));
    later_classes_ = classes;
    if (count_ > 0) look_at_next_class();
  }

  FA2_DEVICE u32 count() const { return count_; }

  /// Returns the coordinates of `tile`, which must be below count() and not below the previous argument.
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
    const u32 of_sequence = tile + static_cast<u32>(tiles * side_.heads()) - end;
    const u32 section = of_sequence / (side_.sections().heads[0].value * static_cast<u32>(tiles));
    const TileCoordinates found =
        tile_in_sections(of_sequence, section, tiles, side_.heads(), side_.sections());
    return {Side::in_order(found.q_tile, tiles), found.head, first_batch_ + lane};
  }

 private:
  static constexpr int kAtOnce = 4;  ///< sequences whose lengths a lane loads together

  struct Sequence {
    u32 tiles;       ///< tiles per head
    u32 size_class;  ///< one bit; a higher one for longer other sides
  };

  Side side_;
  u32 count_;
  u32 later_classes_;
  u32 size_class_;
  int first_batch_;  ///< first of the 32 sequences at the lanes
  u32 tiles_;        ///< tiles per head of this lane's sequence; 0 if its class is another
  u32 end_ = 0;      ///< number of the tile after this sequence's last

  FA2_DEVICE int sequences() const { return side_.attention().sequences.batch; }
  FA2_DEVICE u32 heads() const { return static_cast<u32>(side_.heads()); }

  FA2_DEVICE Sequence sequence_at(int first_batch) const {
    const int batch = first_batch + ptx::lane_index();
    const bool exists = batch < sequences();
    const SequenceShape shape = shape_of<Config>(side_.attention(), exists ? batch : 0);
    const int halvings = ptx::clz(static_cast<u32>(Side::length_of_other(shape))) -
                         ptx::clz(static_cast<u32>(side_.longest_other()));
    const u32 tiles = static_cast<u32>(Side::rows(shape) + Config::tile_m - 1) / Config::tile_m;
    return {exists ? tiles : 0, 0x80000000u >> halvings};
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

/// Returns the tile numbering of a kernel.
template <class Config, class Side>
FA2_DEVICE auto tiles_of_side(const Side& side) {
  if constexpr (Config::varlen) {
    return VarlenTiles<Config, Side>(side);
  } else {
    return batched_tiles<Config>(side);
  }
}

/// Returns the tile numbering of a kernel whose rows are queries.
template <class Config>
FA2_DEVICE auto tiles_of(const AttentionParams& params) {
  return tiles_of_side<Config>(QuerySide{params});
}

/// Returns the tile numbering of a kernel whose rows are keys.
template <class Config>
FA2_DEVICE auto key_tiles_of(const BackwardParams& params) {
  return tiles_of_side<Config>(KeySide{params});
}

}  // namespace fa2
