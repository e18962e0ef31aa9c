// Which output tiles a block computes, one after the other. The producer decides, the consumers follow.
#pragma once

#include "attention/pipeline_sm90.cuh"
#include "attention/scheduler.cuh"
#include "attention/tile_schedule.cuh"
#include "ptx/atomic.cuh"
#include "ptx/memory.cuh"

namespace fa2 {

constexpr u32 kNoTile = 0xffffffffu;

/// Asked by the producer's warp.
template <class Config>
struct TileScheduler {
  const AttentionParamsSm90& params;
  SharedLayoutSm90<Config> shared;
  u32 tile;
  TileTurn turn;

  FA2_DEVICE void announce() {
    if constexpr (Config::schedule != kDynamicPersistent) return;
    const int place = turn.place(2);
    ptx::mbarrier_wait(shared.tile_empty(place), turn.parity(2) ^ 1);
    if (ptx::elect_one()) {
      ptx::st_shared_u32(shared.tile_number(place), tile);
      ptx::mbarrier_arrive(shared.tile_full(place));
    }
    ptx::bar_warp_sync();
  }

  FA2_DEVICE u32 first() {
    tile = ptx::block_index();
    announce();
    return tile;
  }

  /// Taken as late as possible: tiles are handed out from the longest to the shortest.
  FA2_DEVICE u32 next() {
    if constexpr (Config::schedule == kOneTileEach) return kNoTile;
    if constexpr (Config::schedule == kStaticPersistent) tile += params.block_count;
    if constexpr (Config::schedule == kDynamicPersistent) {
      u32 taken = 0;
      if (ptx::lane_index() == 0) taken = ptx::atom_inc_global_u32(params.next_tile, params.tile_count - 1);
      tile = params.block_count + static_cast<u32>(ptx::shfl_idx(static_cast<int>(taken), 0));
    }
    if (tile >= params.tile_count) tile = kNoTile;
    ++turn.count;
    announce();
    return tile;
  }
};

/// Asked by every consumer warp.
template <class Config>
struct TileFollower {
  const AttentionParamsSm90& params;
  SharedLayoutSm90<Config> shared;
  u32 tile;
  TileTurn turn;

  FA2_DEVICE u32 first() {
    tile = ptx::block_index();
    if constexpr (Config::schedule == kDynamicPersistent) hear();
    return tile;
  }

  FA2_DEVICE u32 next() {
    if constexpr (Config::schedule == kOneTileEach) return kNoTile;
    ++turn.count;
    if constexpr (Config::schedule == kDynamicPersistent) hear();
    if constexpr (Config::schedule == kStaticPersistent) {
      tile += params.block_count;
      if (tile >= params.tile_count) tile = kNoTile;
    }
    return tile;
  }

 private:
  FA2_DEVICE void hear() {
    const int place = turn.place(2);
    ptx::mbarrier_wait(shared.tile_full(place), turn.parity(2));
    u32 number = 0;
    if (ptx::lane_index() == 0) {
      number = ptx::ld_shared_u32(shared.tile_number(place));
      ptx::mbarrier_arrive(shared.tile_empty(place));
    }
    // The same in every lane, and known to be: what follows from it stays in uniform registers.
    tile = static_cast<u32>(ptx::shfl_idx(static_cast<int>(number), 0));
  }
};

}  // namespace fa2
