// The producer warp: every tile of Q, K and V of the block's output tiles, in the order in which the
// consumers need them.
#pragma once

#include "attention/key_blocks.cuh"
#include "attention/tile_schedule_sm90.cuh"
#include "tile/tma_copy.cuh"

namespace fa2 {

/// The whole warp walks the loop, so that coordinates stay in uniform registers; one lane issues.
template <class Config>
struct Producer {
  using Layout = SharedLayoutSm90<Config>;

  const AttentionParamsSm90& params;
  Layout shared;
  PipelineState<Config::stages> state;

  FA2_DEVICE void run() {
    TileScheduler<Config> tiles{params, shared, 0};
    for (u32 tile = tiles.first(); tile != kNoTile; tile = tiles.next()) {
      const TileCoordinates at = tile_of(tile, params.attention);
      const Mask<Config> mask = mask_of<Config>(params.attention, at.batch);
      const KeyBlocks<Config> blocks = key_blocks(mask, at.q_tile * Config::tile_m, Config::tile_m);
      const int last = blocks.end - 1;
      if (!blocks.is_empty()) load_keys(at, last);
      // Also without a single key: the consumers put their output where the queries were.
      load_queries(at, tiles.turn);
      for (int n = last; n >= blocks.begin; --n) {
        if (!Config::overlap && n < last) load_keys(at, n);
        if (Config::overlap && n > blocks.begin) load_keys(at, n - 1);
        load_values(at, n);
      }
    }
  }

 private:
  FA2_DEVICE TensorRows key_rows(const TileCoordinates& at, int n) const {
    const int first_key = Config::window_left ? params.attention.first_key : 0;
    return {n * Config::tile_n - first_key, at.head / params.attention.queries_per_kv, at.batch};
  }

  FA2_DEVICE void load_keys(const TileCoordinates& at, int n) {
    load<TensorShape<Config::head_dim>>(shared.keys(state.index), params.k, key_rows(at, n));
  }
  FA2_DEVICE void load_values(const TileCoordinates& at, int n) {
    load<TensorShape<Config::head_dim_v>>(shared.values(state.index), params.v, key_rows(at, n));
  }

  template <class Shape, class Tile>
  FA2_DEVICE void load(Tile tile, const TensorMap& map, const TensorRows& from) {
    ptx::mbarrier_wait(shared.slot_empty(state.index), state.phase ^ 1);
    if (ptx::elect_one()) {
      ptx::mbarrier_arrive_expect_tx(shared.slot_full(state.index), Tile::bytes);
      tma_load_tile<Shape>(tile, map, from, shared.slot_full(state.index));
    }
    ptx::bar_warp_sync();
    state.advance();
  }

  FA2_DEVICE void load_queries(const TileCoordinates& at, TileTurn turn) {
    const int buffer = turn.place(Config::q_buffers);
    ptx::mbarrier_wait(shared.queries_empty(buffer), turn.parity(Config::q_buffers) ^ 1);
    if (ptx::elect_one()) {
      const SharedAddress full = shared.queries_full(buffer);
      ptx::mbarrier_arrive_expect_tx(full, Layout::warpgroups * Layout::QueryTile::bytes);
      FA2_UNROLL
      for (int w = 0; w < Layout::warpgroups; ++w) {
        tma_load_tile<TensorShape<Config::head_dim, Config::packed_heads>>(
            shared.queries(buffer, w), params.q, {at.q_tile * Config::tile_m + 64 * w, at.head, at.batch},
            full);
      }
    }
    ptx::bar_warp_sync();
  }
};

}  // namespace fa2
