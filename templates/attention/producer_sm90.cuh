// The producer warp: every tile of Q, K and V of the block's output tiles, in the order in which the
// consumers need them.
#pragma once

#include "attention/key_blocks.cuh"
#include "attention/key_pages.cuh"
#include "attention/tile_schedule_sm90.cuh"
#include "tile/tma_copy.cuh"

namespace fa2 {

constexpr int greatest_common_divisor(int a, int b) {
  return b == 0 ? a : greatest_common_divisor(b, a % b);
}

/// The whole warp walks the loop, so that coordinates stay in uniform registers; one lane issues.
template <class Config>
struct Producer {
  using Layout = SharedLayoutSm90<Config>;

  const AttentionParamsSm90& params;
  Layout shared;
  PipelineState<Config::stages> state;
  u32 edge_phase = 0;

  FA2_DEVICE void run() {
    auto tiles = scheduler_of<Config>(params, shared);
    for (SequenceTile tile = tiles.first(); tile.exist(); tile = tiles.next()) {
      const TileCoordinates& at = tile.at;
      const Mask<Config> mask = mask_of<Config>(params.attention, tile.shape);
      const KeyBlocks<Config> blocks =
          of_part<Config>(key_blocks(mask, at.q_tile * Config::tile_m, Config::tile_m), tile.part);
      const int last = blocks.end - 1;
      if (!blocks.is_empty()) load_keys(mask, at, last);
      // Also without a single key: the consumers put their output where the queries were.
      load_queries(mask.shape, at, tiles.turn);
      for (int n = last; n >= blocks.begin; --n) {
        if (!Config::overlap && n < last) load_keys(mask, at, n);
        if (Config::overlap && n > blocks.begin) load_keys(mask, at, n - 1);
        load_values(mask, at, n);
      }
    }
  }

 private:
  FA2_DEVICE TensorRows key_rows(const SequenceShape& shape, const TileCoordinates& at, int n) const {
    const int first_key = Config::window_left ? params.attention.first_key : 0;
    return {shape.k_begin, n * Config::tile_n - first_key, at.head / params.attention.queries_per_kv,
            shape.k_entry};
  }

  FA2_DEVICE void load_keys(const Mask<Config>& mask, const TileCoordinates& at, int n) {
    if constexpr (Config::page_size > 0) {
      start_load_of_pages<Config::head_dim>(shared.keys(state.index), params.k, mask.shape, at, n,
                                            shared.slot_full(state.index));
      return state.advance();
    }
    load<TensorShape<Config::head_dim>>(shared.keys(state.index), params.k, key_rows(mask.shape, at, n));
  }

  /// What no query of the sequence sees may be anything, and 0 * NaN is NaN. In a batch of equal lengths the tensor map
  /// ends where the keys do.
  FA2_DEVICE void load_values(const Mask<Config>& mask, const TileCoordinates& at, int n) {
    if constexpr (Config::varlen) return load_seen_values(mask, at, n);
    load<TensorShape<Config::head_dim_v>>(shared.values(state.index), params.v, key_rows(mask.shape, at, n));
  }

  /// Those after a sequence's last one TMA leaves out, but in pages; these, and those before a window's first, are cleared
  /// before the slot counts as full.
  FA2_DEVICE void load_seen_values(const Mask<Config>& mask, const TileCoordinates& at, int n) {
    constexpr bool kPaged = Config::page_size > 0;
    const RowsWithin seen = mask.seen_rows(n * Config::tile_n);
    const bool clears = (Config::window_left && seen.begin > 0) || (kPaged && seen.end < Config::tile_n);
    const SharedAddress full = clears ? shared.edge_full() : shared.slot_full(state.index);
    const typename Layout::ValueTile tile = shared.values(state.index);
    if constexpr (kPaged) {
      start_load_of_pages<Config::head_dim_v>(tile, params.v, mask.shape, at, n, full);
    } else {
      TensorRows from = key_rows(mask.shape, at, n);
      from.row = params.attention.seqlen_k - seen.end;
      from.begin += n * Config::tile_n + seen.end;
      start_load<RaggedShape<Config::head_dim_v>>(tile, params.v, from, full);
    }
    if (clears) {
      ptx::mbarrier_wait(shared.edge_full(), edge_phase);
      edge_phase ^= 1;
      clear_rows_outside<32>(tile, seen, ptx::lane_index());
      ptx::bar_warp_sync();
      if (ptx::elect_one()) ptx::mbarrier_arrive(shared.slot_full(state.index));
      ptx::bar_warp_sync();
    }
    state.advance();
  }

  template <class Shape, class Tile>
  FA2_DEVICE void load(Tile tile, const TensorMap& map, const TensorRows& from) {
    start_load<Shape>(tile, map, from, shared.slot_full(state.index));
    state.advance();
  }

  FA2_DEVICE void await_empty_slot() const {
    ptx::mbarrier_wait(shared.slot_empty(state.index), state.phase ^ 1);
  }

  /// Into the next slot, as soon as it is empty.
  template <class Shape, class Tile>
  FA2_DEVICE void start_load(Tile tile, const TensorMap& map, const TensorRows& from, SharedAddress full) {
    await_empty_slot();
    if (ptx::elect_one()) {
      ptx::mbarrier_arrive_expect_tx(full, Tile::bytes);
      tma_load_tile<Shape>(tile, map, from, full);
    }
    ptx::bar_warp_sync();
  }

  /// The same of block `n` of a sequence's keys, in pieces that are pages, or parts of one; a lane finds one's page.
  template <int kCols, class Tile>
  FA2_DEVICE void start_load_of_pages(Tile tile, const TensorMap& map, const SequenceShape& shape,
                                      const TileCoordinates& at, int n, SharedAddress full) {
    constexpr int kRows = greatest_common_divisor(Config::page_size, Config::tile_n);
    constexpr int kPieces = Config::tile_n / kRows;
    static_assert(kPieces <= 32 && kRows % 8 == 0, "a lane a piece, of whole swizzles");
    const int lane = ptx::lane_index();
    const PageRow found = key_pages<Config>(params.attention, shape)
                              .at(n * Config::tile_n + kRows * (lane < kPieces ? lane : 0));
    await_empty_slot();
    if (ptx::elect_one()) ptx::mbarrier_arrive_expect_tx(full, Tile::bytes);
    FA2_NO_UNROLL
    for (int piece = 0; piece < kPieces; ++piece) {
      const TensorRows from{0, ptx::shfl_idx(found.row, piece), at.head / params.attention.queries_per_kv,
                            ptx::shfl_idx(found.page, piece)};
      const Tile to{tile.base + static_cast<u32>(piece * kRows * Tile::span)};
      if (ptx::elect_one()) tma_load_tile<PagedShape<kCols>>(to, map, from, full);
    }
    ptx::bar_warp_sync();
  }

  FA2_DEVICE void load_queries(const SequenceShape& shape, const TileCoordinates& at, TileTurn turn) {
    const int buffer = turn.place(Config::q_buffers);
    ptx::mbarrier_wait(shared.queries_empty(buffer), turn.parity(Config::q_buffers) ^ 1);
    if (ptx::elect_one()) {
      const SharedAddress full = shared.queries_full(buffer);
      ptx::mbarrier_arrive_expect_tx(full, Layout::warpgroups * Layout::QueryTile::bytes);
      FA2_UNROLL
      for (int w = 0; w < Layout::warpgroups; ++w) {
        tma_load_tile<TensorShape<Config::head_dim, Config::packed_heads>>(
            shared.queries(buffer, w), params.q,
            {shape.q_begin, at.q_tile * Config::tile_m + 64 * w, at.head, shape.q_entry}, full);
      }
    }
    ptx::bar_warp_sync();
  }
};

}  // namespace fa2
