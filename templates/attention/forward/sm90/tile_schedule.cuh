// The sequence of output tiles that a block computes. The producer chooses them, and the consumers follow.
#pragma once

#include "attention/common/tile_schedule.cuh"
#include "attention/common/varlen_tiles.cuh"
#include "attention/forward/sm90/pipeline.cuh"
#include "attention/forward/split_tiles.cuh"
#include "ptx/atomic.cuh"
#include "ptx/memory.cuh"

namespace fa2 {

/// True if the producer announces tiles, because consumers would have to search for them or cannot know them.
template <class Config>
constexpr bool announces_tiles = Config::schedule >= kDynamicPersistent || Config::varlen;

/// Announces a tile to the consumers. Only the producer warp calls it.
template <class Config>
FA2_DEVICE void announce(const SharedLayoutSm90<Config>& shared, const TileTurn& turn,
                         const SequenceTile& tile) {
  const int place = turn.place(2);
  ptx::mbarrier_wait(shared.tile_empty(place), turn.parity(2) ^ 1);
  if (ptx::elect_one()) {
    const auto words = [](int a, int b, int c, int d) {
      return ptx::Vector16{
          {static_cast<u32>(a), static_cast<u32>(b), static_cast<u32>(c), static_cast<u32>(d)}};
    };
    const SequenceShape& shape = tile.shape;
    ptx::st_shared_v4(shared.tile(place), words(tile.at.q_tile, tile.at.head, tile.at.batch, shape.seqlen_q));
    if constexpr (Config::varlen)
      ptx::st_shared_v4(shared.tile(place) + 16, words(shape.q_begin, shape.k_begin, shape.seqlen_k, 0));
    if constexpr (Config::schedule == kSplitKeys) {
      const KeyPart& part = tile.part;
      ptx::st_shared_v4(shared.tile(place) + shared.tile_bytes - 16,
                        words(part.begin, part.end, part.place, part.count));
    }
    ptx::mbarrier_arrive(shared.tile_full(place));
  }
  ptx::bar_warp_sync();
}

/// Chooses the block's tiles. Only the producer warp calls it.
template <class Config>
struct TileScheduler {
  const AttentionParamsSm90& params;
  SharedLayoutSm90<Config> shared;
  u32 tile = ptx::block_index();
  TileTurn turn{};
  decltype(tiles_of<Config>(params.attention)) tiles = tiles_of<Config>(params.attention);

  /// Announces the current tile and returns it. Each tile must be asked for once.
  FA2_DEVICE SequenceTile current() {
    if (Config::schedule == kOneTileEach && turn.count > 0) return {kNoTile, {}};
    const SequenceTile found = tile < tiles.count() ? in_sequence(tiles.at(tile)) : SequenceTile{kNoTile, {}};
    if constexpr (announces_tiles<Config>) announce(shared, turn, found);
    return found;
  }

  /// Moves to the next tile. It must be called as late as possible, because long tiles come first.
  FA2_DEVICE void advance() {
    if constexpr (Config::schedule == kStaticPersistent) tile += params.shares.block_count;
    if constexpr (Config::schedule == kDynamicPersistent) {
      u32 taken = 0;
      if (ptx::lane_index() == 0) taken = ptx::atom_inc_global_u32(params.shares.counters, tiles.count() - 1);
      tile = params.shares.block_count + static_cast<u32>(ptx::shfl_idx(static_cast<int>(taken), 0));
    }
    ++turn.count;
  }

 private:
  FA2_DEVICE SequenceTile in_sequence(const TileCoordinates& at) const {
    return {at, shape_of<Config>(params.attention, at.batch)};
  }
};

/// Like TileScheduler, for split KV. A producer that copies rows has no registers for stacks.
template <class Config>
struct SplitScheduler {
  SharedLayoutSm90<Config> shared;
  SplitTiles<Config, !copies_rows<Config>> tiles;
  TileTurn turn;

  FA2_DEVICE SequenceTile current() {
    const SequenceTile tile = tiles.next();
    announce(shared, turn, tile);
    return tile;
  }
  FA2_DEVICE void advance() { ++turn.count; }
};

template <class Config>
FA2_DEVICE auto scheduler_of(const AttentionParamsSm90& params, const SharedLayoutSm90<Config>& shared) {
  if constexpr (Config::schedule == kSplitKeys) {
    return SplitScheduler<Config>{shared, {params.attention, params.shares}, {}};
  } else {
    return TileScheduler<Config>{params, shared};
  }
}

/// Returns to a consumer warp the tiles that the producer chose. Every consumer warp calls it.
template <class Config>
struct TileFollower {
  const AttentionParamsSm90& params;
  SharedLayoutSm90<Config> shared;
  u32 tile = ptx::block_index();
  TileTurn turn{};

  FA2_DEVICE SequenceTile current() const {
    if (Config::schedule == kOneTileEach && turn.count > 0) return {kNoTile, {}};
    if constexpr (announces_tiles<Config>) return heard();
    const auto tiles = batched_tiles<Config>(QuerySide{params.attention});
    if (tile >= tiles.count()) return {kNoTile, {}};
    const TileCoordinates at = tiles.at(tile);
    return {at, shape_of<Config>(params.attention, at.batch)};
  }

  FA2_DEVICE void advance() {
    ++turn.count;
    tile += params.shares.block_count;
  }

 private:
  FA2_DEVICE SequenceTile heard() const {
    const int place = turn.place(2);
    ptx::mbarrier_wait(shared.tile_full(place), turn.parity(2));
    ptx::Vector16 tile_words{}, sequence_words{}, part_words{};
    if (ptx::lane_index() == 0) {
      tile_words = ptx::ld_shared_v4(shared.tile(place));
      if constexpr (Config::varlen) sequence_words = ptx::ld_shared_v4(shared.tile(place) + 16);
      if constexpr (Config::schedule == kSplitKeys)
        part_words = ptx::ld_shared_v4(shared.tile(place) + shared.tile_bytes - 16);
      ptx::mbarrier_arrive(shared.tile_empty(place));
    }
    // The shuffles tell the compiler that all lanes agree, so derived values stay in uniform registers.
    const auto uniform = [](u32 word) { return ptx::shfl_idx(static_cast<int>(word), 0); };
    const TileCoordinates at{uniform(tile_words.word[0]), uniform(tile_words.word[1]),
                             uniform(tile_words.word[2])};
    KeyPart part{};
    if constexpr (Config::schedule == kSplitKeys)
      part = {uniform(part_words.word[0]), uniform(part_words.word[1]), uniform(part_words.word[2]),
              uniform(part_words.word[3])};
    if constexpr (!Config::varlen) return {at, shape_of<Config>(params.attention, at.batch), part};
    const RowSpan q{uniform(sequence_words.word[0]), uniform(tile_words.word[3])};
    const RowSpan k{uniform(sequence_words.word[1]), uniform(sequence_words.word[2])};
    return {at, shape_of<Config>(params.attention, at.batch, q, k), part};
  }
};

}  // namespace fa2
