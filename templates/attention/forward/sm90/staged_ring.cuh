// The ring of tiles of the capture that has an element per score. Each KV block of a tile of queries takes a slot.
#pragma once

#include "attention/common/score_mod.cuh"
#include "attention/forward/sm90/pipeline.cuh"

namespace fa2 {

/// The producer's side. One warp calls it.
template <class Config, bool kExist = Config::score_tiles != 0>
struct StagedLoads {
  FA2_DEVICE void load(const SharedLayoutSm90<Config>&, const AttentionParams&, const TileCoordinates&,
                       int) const {}
};
template <class Config>
struct StagedLoads<Config, true> {
  using Layout = SharedLayoutSm90<Config>;
  PipelineState<Layout::staged_slots> state;

  /// Loads the tiles of block `n` into the next slot as soon as it is empty.
  FA2_DEVICE void load(const Layout& shared, const AttentionParams& params, const TileCoordinates& at,
                       int n) {
    ptx::mbarrier_wait(shared.staged_empty(state.index), state.phase ^ 1);
    if (ptx::elect_one()) {
      const SharedAddress full = shared.staged_full(state.index);
      ptx::mbarrier_arrive_expect_tx(full, Layout::warpgroups * Layout::staged_bytes);
      FA2_UNROLL
      for (int w = 0; w < Layout::warpgroups; ++w) {
        const StagedScores<Config> tile{
            {shared.staged(state.index, w)}, at.q_tile * Config::tile_m + 64 * w, n * Config::tile_n};
        tile.load(params, at.head, at.batch, full);
      }
    }
    ptx::bar_warp_sync();
    state.advance();
  }
};

/// A consumer warpgroup's side.
template <class Config, bool kExist = Config::score_tiles != 0>
struct StagedReader {
  FA2_DEVICE StagedReader(const SharedLayoutSm90<Config>&, int) {}
  FA2_DEVICE void wait(ScoreMod<Config>&, int, int) const {}
  template <class Scores>
  FA2_DEVICE void release(Scores&) const {}
};
template <class Config>
struct StagedReader<Config, true> {
  SharedLayoutSm90<Config> shared;
  int warpgroup;
  PipelineState<SharedLayoutSm90<Config>::staged_slots> state;

  FA2_DEVICE StagedReader(const SharedLayoutSm90<Config>& layout, int of_warpgroup)
      : shared(layout), warpgroup(of_warpgroup) {}

  /// Waits for the tile of block `n`, for texts to read. `first_row`: this warp's.
  FA2_DEVICE void wait(ScoreMod<Config>& mod, int first_row, int n) const {
    constexpr u32 kRowBytes = StagedScores<Config>::Tile::span;
    ptx::mbarrier_wait(shared.staged_full(state.index), state.phase);
    const SharedAddress of_warp =
        shared.staged(state.index, warpgroup) + static_cast<u32>(first_row) % 64 * kRowBytes;
    mod.text.staged = {{ptx::renewed(of_warp)}, first_row, n * Config::tile_n};
  }

  /// Releases the tile for this warp, once a block. What has been read is in `scores`.
  template <class Scores>
  FA2_DEVICE void release(Scores& scores) {
    hold(scores);
    ptx::bar_warp_sync();  // all lanes have read
    if (ptx::elect_one()) ptx::mbarrier_arrive(shared.staged_empty(state.index));
    state.advance();
  }
};

}  // namespace fa2
