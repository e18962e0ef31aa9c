// Split KV: every thread block computes an equal number of KV blocks, tile after tile.
#pragma once

#include "attention/common/key_blocks.cuh"
#include "attention/common/key_pages.cuh"
#include "attention/common/tile_schedule.cuh"
#include "attention/common/varlen_tiles.cuh"

namespace fa2 {

/// Returns the KV blocks per split with fixed split boundaries: at least 512 keys. It depends on the sequence
/// alone, so the output's bits do too. Tiles with many rows are not split, because that takes too much
/// memory.
template <class Config>
FA2_DEVICE u32 blocks_of_part(const AttentionParams& params, const SequenceShape& shape, u32 blocks_of_tile) {
  constexpr u32 kLeast = 512 / Config::tile_n;
  if (shape.rows > most_split_rows(params.packing.heads)) return blocks_of_tile;
  const u32 blocks = (blocks_of_tile + kMostParts - 1) / kMostParts;
  return blocks > kLeast ? blocks : kLeast;
}

/// The splits that one thread block computes: its range of KV blocks or, with fixed split boundaries, the
/// splits that begin in its range.
///
/// KV blocks are numbered by sequence, head, query tile and position. A tile that sees no key counts as one
/// block, because its output must be written. Every thread block gets equally many; the last ones get fewer, or
/// none. If tiles are aligned, each takes equally many numbers, and as many thread blocks; the last of them get
/// fewer KV blocks, or none. The lanes of a warp look at 128 sequences at once, four neighbours each.
template <class Config>
class SplitTiles {
 public:
  FA2_DEVICE SplitTiles(const AttentionParams& params, const WorkShares& shares)
      : params_(params), launched_(static_cast<int>(shares.block_count)) {
    HeadBlocks all = all_blocks();
    share_ = (all.sum + shares.block_count - 1) / shares.block_count;
    if constexpr (aligns) {
      if (tiles_of_kv_head() > 1 && align(all)) all = all_blocks();
    }
    next_ = ptx::block_index() * share_;
    if (next_ >= all.sum) return;
    end_ = next_ + share_;
    end_at(all.sum);
    find_tile();
    if constexpr (Config::batch_invariant) skip_begun_part();
    if (aligns && stretch_ > 0) end_at(tile_begin_ + count_of(seen_by(shape_, at_.q_tile)));
  }

  FA2_DEVICE SequenceTile next() {
    if (next_ >= end_) return {kNoTile, {}};
    const TileCoordinates at = at_;
    const KeyBlocks<Config> seen = seen_by(shape_, at.q_tile);
    const u32 count = count_of(seen);
    KeyPart part = Config::batch_invariant ? fixed_part(count) : rest_of_share(count);
    const SequenceShape shape = shape_;
    next_ = tile_begin_ + static_cast<u32>(part.end);
    if (static_cast<u32>(part.end) == count && next_ < end_) begin_next_tile();
    part.begin += seen.begin;
    part.end += seen.begin;
    if (part.end > seen.end) part.end = seen.end;
    return {at, shape, part};
  }

 private:
  /// Tiles see different keys in a window, and a producer that gathers rows has no registers to align them.
  static constexpr bool aligns = !Config::batch_invariant && !Config::window_left && !gathers_keys<Config>;
  static constexpr int kOfLane = 4, kSequences = 32 * kOfLane;

  /// KV blocks of some tiles, and of the longest of them.
  struct HeadBlocks {
    u32 sum, most;
  };

  const AttentionParams& params_;
  int launched_;     ///< thread blocks in the grid
  u32 share_;        ///< KV blocks per thread block; the last ones have fewer, or none
  u32 stretch_ = 0;  ///< numbers that an aligned tile takes, a multiple of share_; 0: no tile is aligned
  u32 next_ = 0, end_ = 0;  ///< KV blocks left for this thread block: [next_, end_)
  TileCoordinates at_{};    ///< tile of KV block next_
  SequenceShape shape_{};
  u32 tile_begin_ = 0;

  FA2_DEVICE void end_at(u32 block) { end_ = end_ < block ? end_ : block; }
  FA2_DEVICE int sequences() const { return params_.sequences.batch; }

  /// Aligns tiles, if that is worth leaving some thread blocks idle. Then ranges begin at the same keys in all
  /// tiles of a key/value head, L2 serves them with keys that one of them has loaded, and no thread block has parts of two
  /// tiles. Otherwise all tiles may read their keys from memory, unless L2 holds all that lies between.
  FA2_DEVICE bool align(const HeadBlocks& all) {
    const u32 launched = static_cast<u32>(launched_);
    const u32 tiles = static_cast<u32>(params_.q_tiles * params_.heads_q * sequences());
    if (tiles > launched) return false;
    const u32 parts = launched / tiles, aligned = (largest_of_lanes(all.most) + parts - 1) / parts;
    constexpr u64 kL2Bytes = 48 << 20,
                  kBlockBytes = 2 * Config::tile_n * (Config::head_dim + Config::head_dim_v);
    const bool exceeds_l2 = all.sum / static_cast<u32>(tiles_of_kv_head()) * kBlockBytes > kL2Bytes;
    const u32 least_busy = exceeds_l2 ? 6 : 7;  // of eight thread blocks
    if (least_busy * aligned > 8 * share_) return false;
    share_ = aligned;
    stretch_ = parts * aligned;
    return true;
  }

  FA2_DEVICE int tiles_of_kv_head() const { return params_.q_tiles * params_.queries_per_kv; }
  FA2_DEVICE static int tiles_of(const SequenceShape& shape) {
    return (shape.rows + Config::tile_m - 1) / Config::tile_m;
  }
  FA2_DEVICE KeyBlocks<Config> seen_by(const SequenceShape& shape, int q_tile) const {
    return key_blocks_of_lane(mask_of<Config>(params_, shape), q_tile * Config::tile_m, Config::tile_m);
  }
  FA2_DEVICE static u32 count_of(const KeyBlocks<Config>& seen) {
    return seen.is_empty() ? 1 : static_cast<u32>(seen.end - seen.begin);
  }

  FA2_DEVICE int worker_of(u32 block) const { return static_cast<int>(block / share_); }

  /// Returns the split from next_ to the end of the tile or of the range. `count`: KV blocks in the tile.
  FA2_DEVICE KeyPart rest_of_share(u32 count) const {
    const u32 left = end_ - tile_begin_;
    const int first_worker = worker_of(tile_begin_);
    return {static_cast<int>(next_ - tile_begin_), static_cast<int>(count < left ? count : left),
            first_worker, worker_of(tile_begin_ + count - 1) - first_worker + 1};
  }

  /// Returns the split from next_ to the next fixed boundary. `count`: KV blocks in the tile.
  FA2_DEVICE KeyPart fixed_part(u32 count) const {
    const u32 length = blocks_of_part<Config>(params_, shape_, count), first = next_ - tile_begin_;
    const u32 parts = (count + length - 1) / length;
    // Other thread blocks may store splits of the last tile begun here while this one still merges earlier
    // tiles. So tiles that this thread block computes alone use another slot.
    int place = worker_of(tile_begin_);
    if (worker_of(tile_begin_ + (parts - 1) * length) == place) place += launched_;
    return {static_cast<int>(first), static_cast<int>(first + length < count ? first + length : count),
            place * kMostParts + static_cast<int>(first / length), static_cast<int>(parts)};
  }

  /// Skips the rest of a split that began in an earlier range.
  FA2_DEVICE void skip_begun_part() {
    const u32 count = count_of(seen_by(shape_, at_.q_tile)),
              length = blocks_of_part<Config>(params_, shape_, count);
    const u32 first = (next_ - tile_begin_ + length - 1) / length * length;
    next_ = tile_begin_ + (first < count ? first : count);
    if (first >= count && next_ < end_) begin_next_tile();
  }

  /// Returns the numbers that the KV blocks of one head's tiles take.
  FA2_DEVICE HeadBlocks blocks_of_head(const SequenceShape& shape) const {
    HeadBlocks blocks{0, 0};
    for (int q_tile = 0; q_tile < tiles_of(shape); ++q_tile) {
      const u32 count = numbers_of(count_of(seen_by(shape, q_tile)));
      blocks.sum += count;
      blocks.most = count > blocks.most ? count : blocks.most;
    }
    return blocks;
  }
  FA2_DEVICE u32 numbers_of(u32 count) const { return aligns && stretch_ > 0 ? stretch_ : count; }

  /// KV blocks of a lane's sequences.
  struct LaneBlocks {
    u32 of_sequence[kOfLane];
    HeadBlocks all;
  };

  /// Returns the KV blocks of this lane's sequences, the first of which is first_batch + kOfLane * lane. Their
  /// lengths are loaded together.
  FA2_DEVICE LaneBlocks blocks_at(int first_batch) const {
    const int batch = first_batch + kOfLane * ptx::lane_index();
    SequenceShape shapes[kOfLane];
    FA2_UNROLL
    for (int i = 0; i < kOfLane; ++i)
      shapes[i] = shape_of<Config>(params_, batch + i < sequences() ? batch + i : 0);
    LaneBlocks blocks{};
    FA2_UNROLL
    for (int i = 0; i < kOfLane; ++i) {
      if (batch + i >= sequences()) continue;
      const HeadBlocks of_head = blocks_of_head(shapes[i]);
      blocks.of_sequence[i] = static_cast<u32>(params_.heads_q) * of_head.sum;
      blocks.all.sum += blocks.of_sequence[i];
      blocks.all.most = of_head.most > blocks.all.most ? of_head.most : blocks.all.most;
    }
    return blocks;
  }

  /// Returns the numbers of all KV blocks, and each lane's most.
  FA2_DEVICE HeadBlocks all_blocks() const {
    HeadBlocks all{0, 0};
    for (int first = 0; first < sequences(); first += kSequences) {
      const HeadBlocks some = blocks_at(first).all;
      all.sum += last_lane(inclusive_sum(some.sum));
      all.most = some.most > all.most ? some.most : all.most;
    }
    return all;
  }

  /// Finds the sequence that contains KV block next_. Returns how many KV blocks come before it.
  FA2_DEVICE u32 find_sequence() {
    const auto of_lane = [](u32 value, int lane) {
      return static_cast<u32>(ptx::shfl_idx(static_cast<int>(value), lane));
    };
    u32 before = 0;
    for (int first = 0;; first += kSequences) {
      const LaneBlocks blocks = blocks_at(first);
      const u32 end = before + inclusive_sum(blocks.all.sum);
      const int lane = ptx::popc(ptx::vote_ballot(end <= next_));
      if (lane == 32) {
        before = last_lane(end);
        continue;
      }
      before = of_lane(end - blocks.all.sum, lane);
      at_.batch = first + kOfLane * lane;
      FA2_UNROLL
      for (int i = 0; i < kOfLane - 1; ++i) {
        const u32 next = before + of_lane(blocks.of_sequence[i], lane);
        if (next > next_) return before;
        before = next;
        ++at_.batch;
      }
      return before;
    }
  }

  /// Finds the tile that contains KV block next_.
  FA2_DEVICE void find_tile() {
    const u32 before = find_sequence();
    shape_ = uniform_shape_of<Config>(params_, at_.batch);
    const u32 of_head = blocks_of_head(shape_).sum;
    at_.head = static_cast<int>((next_ - before) / of_head);
    at_.q_tile = 0;
    tile_begin_ = before + static_cast<u32>(at_.head) * of_head;
    for (;; ++at_.q_tile) {
      const u32 numbers = numbers_of(count_of(seen_by(shape_, at_.q_tile)));
      if (next_ - tile_begin_ < numbers) return;
      tile_begin_ += numbers;
    }
  }

  /// Moves to the next tile, which must exist. next_ must be at its first KV block.
  FA2_DEVICE void begin_next_tile() {
    tile_begin_ = next_;
    if (++at_.q_tile < tiles_of(shape_)) return;
    at_.q_tile = 0;
    if (++at_.head < params_.heads_q) return;
    at_.head = 0;
    do {
      shape_ = uniform_shape_of<Config>(params_, ++at_.batch);
    } while (shape_.rows == 0);
  }
};

/// Returns the tile's KV blocks that belong to the split.
template <class Config>
FA2_DEVICE KeyBlocks<Config> of_part(const KeyBlocks<Config>& blocks, const KeyPart& part) {
  if constexpr (Config::schedule != kSplitKeys) return blocks;
  return blocks.within(part.begin, part.end);
}

}  // namespace fa2
