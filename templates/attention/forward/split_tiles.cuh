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
/// none. If lengths differ, the lanes of a warp look at 128 sequences at once, four neighbours each.
///
/// The tiles of a key/value head, which see about the same keys, may form a stack. Then every thread block
/// belongs to a layer: one tile of each stack. KV blocks are numbered by sequence, key/value head and position,
/// alike in all layers. Thread blocks with the same range in different layers read the same keys together, one
/// of them from memory and the others from L2. If stacks are aligned, each takes a multiple of a thread block's
/// numbers. The last block of a stack gets fewer KV blocks, and no block has parts of two tiles.
///
/// `kMayStack`: whether the caller has registers for stacks.
template <class Config, bool kMayStack = !gathers_keys<Config>>
class SplitTiles {
 public:
  FA2_DEVICE SplitTiles(const AttentionParams& params, const WorkShares& shares)
      : params_(params), launched_(static_cast<int>(shares.block_count)) {
    const Numbers all = all_numbers();
    share_ = quotient_up(all.of_tiles, shares.block_count);
    if (share_ == 0) return;
    const u32 unit = stacks ? stack(all) : 1;
    const bool is_aligned = unit > 1;
    next_ = (ptx::block_index() - static_cast<u32>(first_of_layer())) * share_;
    end_ = is_aligned ? next_ + share_ : smaller(next_ + share_, chosen(all));
    if (!find_tile(unit)) {
      end_ = 0;
      return;
    }
    if constexpr (Config::batch_invariant) skip_begun_part();
    // Saves next() the unit, for which the producer has no register.
    if (is_aligned) end_ = smaller(end_, tile_begin_ + blocks_of_tile(seen_by(shape_, at_.q_tile)));
  }

  FA2_DEVICE SequenceTile next() {
    while (next_ < end_) {
      if (tile_ends_) begin_next_tile();
      const KeyBlocks<Config> seen = seen_by(shape_, at_.q_tile);
      const u32 count = blocks_of_tile(seen);
      const bool is_over = next_ - tile_begin_ >= count;  // other tiles of the stack see more keys
      KeyPart part = Config::batch_invariant ? fixed_part(count) : rest_of_share(count);
      next_ = tile_begin_ + static_cast<u32>(part.end);
      tile_ends_ = static_cast<u32>(part.end) == count;
      if (tile_ends_ && is_stacked()) next_ = tile_begin_ + numbers_of_head(shape_).of_longest;
      if (is_over) continue;
      part.begin += seen.begin;
      part.end += seen.begin;
      if (part.end > seen.end) part.end = seen.end;
      return {at_, shape_, part};
    }
    return {kNoTile, {}};
  }

 private:
  /// Tiles see different keys in windows and chunks, and small ones rarely share keys, unless heads are wide: then all
  /// query heads often share one key/value head. With dropout, a producer has no registers for stacks.
  static constexpr bool stacks = kMayStack && !Config::batch_invariant && !Mask<Config>::has_begin &&
                                 !Config::dropout && (Config::tile_m > 64 || Config::column_warps > 1);
  static constexpr u32 kNone = ~0u;
  static constexpr int kOfLane = 4, kSequences = 32 * kOfLane;

  /// How many numbers KV blocks take: all of them, or those of the longest stack.
  struct Numbers {
    u32 of_tiles, of_stacks, of_longest;
  };

  const AttentionParams& params_;
  int launched_;            ///< thread blocks in the grid
  int first_worker_ = -1;   ///< first thread block of the layer; negative: tiles are not stacked
  u32 share_;               ///< KV blocks per thread block; the last ones have fewer, or none
  u32 next_ = 0, end_ = 0;  ///< KV blocks left for this thread block: [next_, end_)
  TileCoordinates at_{};    ///< tile of KV block next_, or the one before
  SequenceShape shape_{};
  u32 tile_begin_ = 0;
  bool tile_ends_ = false;  ///< KV block next_ is the first of the tile after `at_`

  FA2_DEVICE static u32 smaller(u32 a, u32 b) { return a < b ? a : b; }
  FA2_DEVICE static u32 larger(u32 a, u32 b) { return a > b ? a : b; }
  FA2_DEVICE static u32 quotient_up(u32 a, u32 b) { return (a + b - 1) / b; }
  FA2_DEVICE int stacked_heads() const { return params_.heads_q / params_.queries_per_kv; }
  FA2_DEVICE int sequences() const { return params_.sequences.batch; }
  FA2_DEVICE bool is_stacked() const { return stacks && first_worker_ >= 0; }
  FA2_DEVICE int first_of_layer() const { return is_stacked() ? first_worker_ : 0; }
  FA2_DEVICE u32 chosen(const Numbers& numbers) const {
    return is_stacked() ? numbers.of_stacks : numbers.of_tiles;
  }
  /// Returns the distance between the heads of successive stacks or tiles.
  FA2_DEVICE int head_step() const { return is_stacked() ? params_.queries_per_kv : 1; }

  /// Returns how many thread blocks each layer gets.
  FA2_DEVICE u32 workers_of_layer() const {
    return static_cast<u32>(launched_) / static_cast<u32>(params_.q_tiles * params_.queries_per_kv);
  }

  /// Stacks tiles, unless that leaves too many thread blocks idle, and returns of what their numbers are a multiple.
  /// Aligned stacks may give thread blocks more to do, by what it takes them to go on from one tile to the next.
  FA2_DEVICE u32 stack(const Numbers& all) {
    constexpr u32 kBlocksOfStep = 4;  // about 7 us on an H100
    const u32 workers = workers_of_layer(), heads = static_cast<u32>(sequences() * stacked_heads());
    if (workers == 0 || share_ == 1) return 1;
    u32 unit = 1, share = quotient_up(all.of_stacks, workers);
    if (heads <= workers) {
      // Both suffice for all stacks: as many thread blocks for each, or one more than a fraction of a unit takes.
      u32 aligned = quotient_up(largest_of_lanes(all.of_longest), workers / heads);
      if (heads < workers) aligned = smaller(aligned, quotient_up(all.of_stacks, workers - heads));
      if (aligned <= share_ + smaller(share_, kBlocksOfStep)) unit = share = aligned;
    }
    if (unit == 1 && 8 * share > 9 * share_) return 1;
    first_worker_ = static_cast<int>(ptx::block_index() / workers * workers);
    share_ = share;
    return unit;
  }

  FA2_DEVICE static int tiles_of(const SequenceShape& shape) {
    return (shape.rows + Config::tile_m - 1) / Config::tile_m;
  }
  FA2_DEVICE KeyBlocks<Config> seen_by(const SequenceShape& shape, int q_tile) const {
    return key_blocks_of_lane(mask_of<Config>(params_, shape), q_tile * Config::tile_m, Config::tile_m);
  }
  FA2_DEVICE static u32 count_of(const KeyBlocks<Config>& seen) {
    return seen.is_empty() ? 1 : static_cast<u32>(seen.end - seen.begin);
  }
  /// Returns the KV blocks of tile `at_`, of which it sees `seen`. A shorter sequence has none in the upper layers.
  FA2_DEVICE u32 blocks_of_tile(const KeyBlocks<Config>& seen) const {
    return is_stacked() && at_.q_tile >= tiles_of(shape_) ? 0 : count_of(seen);
  }

  FA2_DEVICE int worker_of(u32 block) const { return first_of_layer() + static_cast<int>(block / share_); }

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

  /// Returns the numbers of one head's tiles, and of one stack.
  FA2_DEVICE Numbers numbers_of_head(const SequenceShape& shape, u32 unit = 1) const {
    Numbers numbers{0, 0, 0};
    for (int q_tile = 0; q_tile < tiles_of(shape); ++q_tile) {
      const u32 count = count_of(seen_by(shape, q_tile));
      numbers.of_tiles += count;
      numbers.of_longest = larger(count, numbers.of_longest);
    }
    numbers.of_stacks = unit > 1 ? quotient_up(numbers.of_longest, unit) * unit : numbers.of_longest;
    return numbers;
  }
  FA2_DEVICE Numbers numbers_of_sequence(const SequenceShape& shape, u32 unit) const {
    Numbers numbers = numbers_of_head(shape, unit);
    numbers.of_tiles *= static_cast<u32>(params_.heads_q);
    numbers.of_stacks *= static_cast<u32>(stacked_heads());
    return numbers;
  }

  /// Returns the numbers of a lane's sequences, the first of which is first_batch + kOfLane * lane. Their
  /// lengths are loaded together.
  struct LaneNumbers {
    Numbers of_sequence[kOfLane];
    Numbers all;
  };
  FA2_DEVICE LaneNumbers numbers_at(int first_batch, u32 unit) const {
    const int batch = first_batch + kOfLane * ptx::lane_index();
    SequenceShape shapes[kOfLane];
    FA2_UNROLL
    for (int i = 0; i < kOfLane; ++i)
      shapes[i] = shape_of<Config>(params_, batch + i < sequences() ? batch + i : 0);
    LaneNumbers numbers{};
    FA2_UNROLL
    for (int i = 0; i < kOfLane; ++i) {
      if (batch + i >= sequences()) continue;
      numbers.of_sequence[i] = numbers_of_sequence(shapes[i], unit);
      numbers.all.of_tiles += numbers.of_sequence[i].of_tiles;
      numbers.all.of_stacks += numbers.of_sequence[i].of_stacks;
      numbers.all.of_longest = larger(numbers.of_sequence[i].of_longest, numbers.all.of_longest);
    }
    return numbers;
  }

  /// Returns the numbers of all sequences. If their lengths differ, each lane has a longest stack of its own.
  FA2_DEVICE Numbers all_numbers() const {
    if constexpr (!Config::varlen) {
      const Numbers each = numbers_of_sequence(shape_of<Config>(params_, 0), 1);
      const u32 count = static_cast<u32>(sequences());
      return {count * each.of_tiles, count * each.of_stacks, each.of_longest};
    } else {
      Numbers all{0, 0, 0};
      for (int first = 0; first < sequences(); first += kSequences) {
        const Numbers some = numbers_at(first, 1).all;
        all.of_tiles += last_lane(inclusive_sum(some.of_tiles));
        if constexpr (stacks) all.of_stacks += last_lane(inclusive_sum(some.of_stacks));
        all.of_longest = larger(some.of_longest, all.of_longest);
      }
      return all;
    }
  }

  /// Finds the sequence that contains KV block next_. Returns how many KV blocks come before it.
  FA2_DEVICE u32 find_sequence(u32 unit) {
    if constexpr (!Config::varlen) {
      const u32 of_each = chosen(numbers_of_sequence(shape_of<Config>(params_, 0), unit));
      at_.batch = static_cast<int>(next_ / of_each);
      return at_.batch < sequences() ? static_cast<u32>(at_.batch) * of_each : kNone;
    } else {
      return search_sequence(unit);
    }
  }
  /// Like find_sequence(), for sequences of different lengths.
  FA2_DEVICE u32 search_sequence(u32 unit) {
    const auto of_lane = [](u32 value, int lane) {
      return static_cast<u32>(ptx::shfl_idx(static_cast<int>(value), lane));
    };
    u32 before = 0;
    for (int first = 0; first < sequences(); first += kSequences) {
      const LaneNumbers numbers = numbers_at(first, unit);
      const u32 end = before + inclusive_sum(chosen(numbers.all));
      const int lane = ptx::popc(ptx::vote_ballot(end <= next_));
      if (lane == 32) {
        before = last_lane(end);
        continue;
      }
      before = of_lane(end - chosen(numbers.all), lane);
      at_.batch = first + kOfLane * lane;
      FA2_UNROLL
      for (int i = 0; i < kOfLane - 1; ++i) {
        const u32 next = before + of_lane(chosen(numbers.of_sequence[i]), lane);
        if (next > next_) return before;
        before = next;
        ++at_.batch;
      }
      return before;
    }
    return kNone;
  }

  /// Finds the tile that contains KV block next_. Returns false if there is none.
  FA2_DEVICE bool find_tile(u32 unit) {
    const u32 before = find_sequence(unit);
    if (before == kNone) return false;
    shape_ = uniform_shape_of<Config>(params_, at_.batch);
    const u32 of_head = chosen(numbers_of_head(shape_, unit)), heads_before = (next_ - before) / of_head;
    tile_begin_ = before + heads_before * of_head;
    at_.head += static_cast<int>(heads_before) * head_step();
    if (is_stacked()) {
      const int layer = first_worker_ / static_cast<int>(workers_of_layer());
      const int head_of_stack = ptx::shfl_idx(layer / params_.q_tiles, 0);
      at_.head += head_of_stack;
      at_.q_tile = layer - head_of_stack * params_.q_tiles;
      return head_of_stack < params_.queries_per_kv;
    }
    for (;; ++at_.q_tile) {
      const u32 count = count_of(seen_by(shape_, at_.q_tile));
      if (next_ - tile_begin_ < count) return true;
      tile_begin_ += count;
    }
  }

  /// Moves to the next tile or stack, which must exist. next_ must be its first number.
  FA2_DEVICE void begin_next_tile() {
    tile_begin_ = next_;
    if (!is_stacked()) {
      if (++at_.q_tile < tiles_of(shape_)) return;
      at_.q_tile = 0;
    }
    at_.head += head_step();
    if (at_.head < params_.heads_q) return;
    at_.head -= params_.heads_q;
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
