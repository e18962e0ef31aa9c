// The iterations that producer and consumers of the fused backward kernel share, and their mbarriers.
#pragma once

#include "attention/backward/key_parts.cuh"
#include "attention/backward/queries_of_keys.cuh"
#include "attention/backward/sm90/layout.cuh"
#include "attention/common/varlen_tiles.cuh"
#include "attention/forward/sm90/pipeline.cuh"
#include "ptx/cluster.cuh"

namespace fa2 {

/// Returns this block's rank among those that share a key tile, which form a cluster.
template <class Config>
FA2_DEVICE int block_of_tile() {
  if constexpr (Config::cluster_blocks == 1) return 0;
  return static_cast<int>(ptx::block_rank_in_cluster());
}

/// Returns the number of the block's tile, or part of a tile, in the launch.
template <class Config>
FA2_DEVICE u32 tile_number() {
  return ptx::block_index() / Config::cluster_blocks;
}

/// Initialises the block's mbarriers. On return all threads may use them.
template <class Config>
FA2_DEVICE void start_backward_pipeline(const BackwardLayoutSm90<Config>& shared) {
  using Layout = BackwardLayoutSm90<Config>;
  if (ptx::thread_index() == 0) {
    FA2_UNROLL
    for (int slot = 0; slot < Config::stages; ++slot) {
      ptx::mbarrier_init(shared.queries_full(slot), 1);
      ptx::mbarrier_init(shared.queries_empty(slot), Config::warps);
    }
    FA2_UNROLL
    for (int slot = 0; slot < Config::output_stages; ++slot) {
      ptx::mbarrier_init(shared.d_output_full(slot), 1);
      ptx::mbarrier_init(shared.d_output_empty(slot), Config::warps);
    }
    FA2_UNROLL
    for (int place = 0; place < Layout::score_places; ++place) {
      ptx::mbarrier_init(shared.scores_full(place), 4 * Layout::key_tiles);
      ptx::mbarrier_init(shared.scores_empty(place), Layout::score_readers + (Layout::blocks > 1));
    }
    FA2_UNROLL
    for (int place = 0; place < (Config::splits_gradients ? 2 : 0); ++place) {
      ptx::mbarrier_init(shared.weights_full(place), 4);
      ptx::mbarrier_init(shared.weights_empty(place), 4);
    }
    ptx::mbarrier_init(shared.keys_full(), 1);
    ptx::mbarrier_init(shared.values_full(), 1);
    ptx::fence_mbarrier_init();
  }
  ptx::bar_sync();
}

/// A slot for dS.
template <class Config>
using ScoreState = PipelineState<BackwardLayoutSm90<Config>::score_places>;

/// Arrives at the mbarrier for this warp. Every warp that used the slot must call it.
FA2_DEVICE void release(SharedAddress mbarrier) {
  if (ptx::elect_one()) ptx::mbarrier_arrive(mbarrier);
}

/// Waits until all warpgroups have read K and V, because gradients leave through their memory. Warpgroups
/// that own one gradient each call it at different points of the program, so each has a barrier of its own.
template <class Config>
FA2_DEVICE void await_others(int warpgroup) {
  if constexpr (Config::splits_gradients) {
    ptx::bar_arrive(10 + 1 - warpgroup, 32 * Config::warps);
    ptx::bar_sync(10 + warpgroup, 32 * Config::warps);
  } else {
    ptx::bar_sync(3, 32 * Config::warps);
  }
}

/// A key tile, the queries that see it, and a block's part of the steps.
template <class Config>
struct KeyWork {
  TileCoordinates at;  ///< key tile and key/value head
  QueriesOfKeys<Config> queries;
  QueryBlocks<Config> blocks;
  int group;  ///< query heads of the key/value head
  PartSteps part;

  FA2_DEVICE bool exists() const { return at.exist() && part.exist(); }
  /// Returns the block's first key.
  FA2_DEVICE int first_key() const {
    return at.q_tile * Config::tile_m + block_of_tile<Config>() * BackwardLayoutSm90<Config>::own_keys;
  }
  FA2_DEVICE const SequenceShape& shape() const { return queries.mask.shape; }
  FA2_DEVICE int steps() const { return part.end - part.begin; }
  /// Returns the steps of all the tile's parts.
  FA2_DEVICE int tile_steps() const { return !at.exist() || blocks.is_empty() ? 0 : blocks.count() * group; }
};

/// Returns the work of a tile_number(). A launch may have more than packed sequences have tiles, or a tile
/// has parts; then exists() is false, and no other member may be used.
template <class Config>
FA2_DEVICE KeyWork<Config> key_work_of(const BackwardParams& params, u32 tile) {
  auto tiles = key_tiles_of<Config>(params);
  const PartNumber number = PartNumber::of(params, tile);
  const TileCoordinates at = number.tile >= tiles.count() ? kNoTile : tiles.at(number.tile);
  const QueriesOfKeys<Config> queries{
      mask_of<Config>(params.attention, uniform_shape_of<Config>(params.attention, at.batch))};
  QueryBlocks<Config> blocks = key_blocks(queries, at.q_tile * Config::tile_m, Config::tile_m);
  if (at.exist()) set_map(blocks, params.attention, at);
  KeyWork<Config> work{at, queries, blocks, params.attention.queries_per_kv, {}};
  work.part = PartSteps::of(params, number.part, work.tile_steps());
  return work;
}

/// One query block and its head.
struct QueryStep {
  int head;
  int n;

  /// Returns the part's first step. A tile's first is the last query block of the group's first head. All heads
  /// of the group follow, then the query block before.
  template <class Config>
  FA2_DEVICE static QueryStep first(const KeyWork<Config>& work) {
    const QueryStep step{work.at.head * work.group, work.blocks.end - 1};
    if (work.part.begin == 0) return step;
    const int blocks = ptx::shfl_idx(work.part.begin / work.group, 0);
    int n = step.n - blocks;
    if constexpr (QueryBlocks<Config>::has_map) {
      n = step.n;
      for (int i = 0; i < blocks; ++i) n = work.blocks.below(n);
    }
    return {step.head + work.part.begin - blocks * work.group, n};
  }
  template <class Config>
  FA2_DEVICE void advance(const KeyWork<Config>& work) {
    const bool ends = ++head == (work.at.head + 1) * work.group;
    head -= ends ? work.group : 0;
    if constexpr (QueryBlocks<Config>::has_map) {
      if (ends) n = work.blocks.below(n);
    } else {
      n -= ends;
    }
  }
};

}  // namespace fa2
