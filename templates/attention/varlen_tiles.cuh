// The output tiles of sequences whose lengths only the device knows.
#pragma once

#include "attention/sequence.cuh"
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

/// Sequences with many keys come first, so that no long tile begins last: sorted by the power of two of their keys, and
/// among equals by the batch. A sequence's tiles follow tile_in_sections(). The lanes of a warp find them together; each
/// looks at one sequence of 32.
template <class Config>
class VarlenTiles {
 public:
  FA2_DEVICE explicit VarlenTiles(const AttentionParams& params) : params_(params) {
    u32 tiles = 0, classes = 0;
    for (int first = 0; first < params.sequences.batch; first += 32) {
      const Sequence sequence = sequence_at(first);
      tiles += sequence.tiles;
      classes |= sequence.tiles > 0 ? sequence.size_class : 0;
    }
    count_ = last_lane(inclusive_sum(tiles * static_cast<u32>(params.heads_q)));
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
      if (first_batch_ + 32 < params_.sequences.batch) {
        look_at(first_batch_ + 32);
      } else {
        look_at_next_class();
      }
    }
    const int lane = ptx::popc(ptx::vote_ballot(end_ <= tile));
    const int q_tiles = ptx::shfl_idx(static_cast<int>(tiles_), lane);
    const u32 end = static_cast<u32>(ptx::shfl_idx(static_cast<int>(end_), lane));
    TileCoordinates found = tile_in_sections(tile + static_cast<u32>(q_tiles * params_.heads_q) - end,
                                             q_tiles, params_.heads_q, params_.heads_per_section);
    found.batch = first_batch_ + lane;
    return found;
  }

 private:
  struct Sequence {
    u32 tiles;       ///< of one head
    u32 size_class;  ///< one bit, a higher one for more keys
  };

  const AttentionParams& params_;
  u32 count_;
  u32 later_classes_;
  u32 size_class_;
  int first_batch_;  ///< of the sequences that the lanes look at
  u32 tiles_;        ///< of this lane's sequence and one head; 0 in another class
  u32 end_ = 0;      ///< the number of the tile after those of this lane's sequence

  FA2_DEVICE Sequence sequence_at(int first_batch) const {
    const int batch = first_batch + ptx::lane_index();
    if (batch >= params_.sequences.batch) return {0, 0};
    const SequenceShape shape = shape_of<Config>(params_, batch);
    const int halvings =
        ptx::clz(static_cast<u32>(shape.seqlen_k)) - ptx::clz(static_cast<u32>(params_.seqlen_k));
    return {static_cast<u32>(shape.rows + Config::tile_m - 1) / Config::tile_m, 0x80000000u >> halvings};
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
    end_ = last_lane(end_) + inclusive_sum(tiles_ * static_cast<u32>(params_.heads_q));
  }
};

/// What a kernel numbers its tiles by.
template <class Config>
FA2_DEVICE auto tiles_of(const AttentionParams& params) {
  if constexpr (Config::varlen) {
    return VarlenTiles<Config>(params);
  } else {
    return BatchedTiles{params};
  }
}

}  // namespace fa2
