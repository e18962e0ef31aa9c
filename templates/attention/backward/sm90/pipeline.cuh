// The iterations that producer and consumers of the fused backward kernel share, and their mbarriers.
#pragma once

#include "attention/backward/queries_of_keys.cuh"
#include "attention/backward/sm90/layout.cuh"
#include "attention/common/varlen_tiles.cuh"
#include "attention/forward/sm90/pipeline.cuh"

namespace fa2 {

/// Initialises the block's mbarriers. On return all threads may use them.
template <class Config>
FA2_DEVICE void start_backward_pipeline(const BackwardLayoutSm90<Config>& shared) {
  using Layout = BackwardLayoutSm90<Config>;
  if (ptx::thread_index() == 0) {
    FA2_UNROLL
    for (int slot = 0; slot < Config::stages; ++slot) {
      ptx::mbarrier_init(shared.queries_full(slot), 1);
      ptx::mbarrier_init(shared.queries_empty(slot), Config::warps);
      ptx::mbarrier_init(shared.d_output_full(slot), 1);
      ptx::mbarrier_init(shared.d_output_empty(slot), Config::warps);
    }
    FA2_UNROLL
    for (int place = 0; place < Layout::score_places; ++place) {
      ptx::mbarrier_init(shared.scores_full(place), 4 * Layout::key_tiles);
      ptx::mbarrier_init(shared.scores_empty(place), Config::warps);
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

/// A key tile, and the queries that see it.
template <class Config>
struct KeyWork {
  TileCoordinates at;  ///< key tile and key/value head
  QueriesOfKeys<Config> queries;
  QueryBlocks<Config> blocks;
  int group;  ///< query heads of the key/value head

  FA2_DEVICE bool exists() const { return at.exist(); }
  FA2_DEVICE int first_key() const { return at.q_tile * Config::tile_m; }
  FA2_DEVICE const SequenceShape& shape() const { return queries.mask.shape; }
  FA2_DEVICE int steps() const { return blocks.is_empty() ? 0 : (blocks.end - blocks.begin) * group; }
};

/// Returns the work of a thread block. Packed sequences may have fewer tiles than the launch has blocks; then
/// exists() is false, and no other member may be used.
template <class Config>
FA2_DEVICE KeyWork<Config> key_work_of(const BackwardParams& params, u32 block) {
  auto tiles = key_tiles_of<Config>(params);
  const TileCoordinates at = Config::varlen && block >= tiles.count() ? kNoTile : tiles.at(block);
  const QueriesOfKeys<Config> queries{
      mask_of<Config>(params.attention, uniform_shape_of<Config>(params.attention, at.batch))};
  return {at, queries, key_blocks(queries, at.q_tile * Config::tile_m, Config::tile_m),
          params.attention.queries_per_kv};
}

/// One query block and its head.
struct QueryStep {
  int head;
  int n;

  /// Returns the last query block of the group's first head. Blocks descend to the head's first, then the
  /// next head follows.
  template <class Config>
  FA2_DEVICE static QueryStep first(const KeyWork<Config>& work) {
    return {work.at.head * work.group, work.blocks.end - 1};
  }
  template <class Config>
  FA2_DEVICE void advance(const KeyWork<Config>& work) {
    if (--n < work.blocks.begin) {
      n = work.blocks.end - 1;
      ++head;
    }
  }
};

}  // namespace fa2
