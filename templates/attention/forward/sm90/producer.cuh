// The producer warps: they load all Q, K and V tiles of a thread block in the order in which the consumers
// need them.
#pragma once

#include "attention/common/key_blocks.cuh"
#include "attention/forward/sm90/page_loads.cuh"
#include "attention/forward/sm90/query_box.cuh"
#include "attention/forward/sm90/staged_ring.cuh"
#include "attention/forward/sm90/tile_schedule.cuh"
#include "attention/forward/sm90/widened_rows.cuh"
#include "ptx/dependent_launch.cuh"
#include "tile/tma_copy.cuh"

namespace fa2 {

/// A producer warp. The whole warp walks the loop, so that coordinates stay in uniform registers. One lane
/// issues the TMA loads.
template <class Config>
struct Producer {
  using Layout = SharedLayoutSm90<Config>;
  static constexpr bool paged = Config::page_size > 0, widens = are_bytes<Config>,
                        gathers = gathers_keys<Config>;

  const AttentionParamsSm90& params;
  Layout shared;
  int warp;  ///< 0: the producer; others copy rows next to it
  PipelineState<Config::stages> state;
  u32 edge_phase = 0;
  StagedLoads<Config> staged{};

  template <class Tiles>
  FA2_DEVICE void run(Tiles tiles) {
    // If products overlap, a block's values follow the keys of the block below it.
    constexpr int kBehind = Config::overlap;
    for (bool follows = false;; follows = true) {
      const SequenceTile tile = tiles.current();
      // After the next tile is announced, because this waits for the consumers of the last one.
      if (Layout::stages_output_in_ring && follows) hand_slots_to_outputs();
      if (!tile.exist()) break;
      const TileCoordinates& at = tile.at;
      const Mask<Config> mask = mask_of<Config>(params.attention, tile.shape);
      KeyBlocks<Config> blocks =
          of_part<Config>(key_blocks(mask, at.q_tile * Config::tile_m, Config::tile_m), tile.part);
      set_map(blocks, params.attention, at);
      const int last = blocks.end - 1;
      Pages above{}, here = pages_of(mask.shape, blocks, last);
      int n = last, n_above = last + 1;
      FA2_NO_UNROLL
      do {
        const int n_below = blocks.has_map ? blocks.below(n) : n - 1;
        const Pages below = pages_of(mask.shape, blocks, n_below);
        const Block next{n > blocks.begin ? n_below : kNoBlock, below};
        if (n >= blocks.begin) load_keys(mask, at, {n, here}, next);
        // Runs even without a key, because the output may pass through the memory of the queries.
        if (n == last && warp == 0) load_queries(mask.shape, at, tiles.turn);
        if (n >= blocks.begin && warp == 0) staged.load(shared, params.attention, at, n);
        const Block behind{kBehind == 0 ? n : blocks.has_map ? n_above : n + 1, kBehind ? above : here};
        if (!Config::values_in_keys && behind.n <= last && behind.n >= blocks.begin)
          load_values(mask, at, behind, next);
        above = here, here = below;
        if (blocks.has_map) n_above = n, n = n_below + 1;
      } while (--n >= blocks.begin - kBehind);
      tiles.advance();
    }
  }

 private:
  using Pages = BlockPages<Config>;
  static constexpr int kNoBlock = -1;
  struct Block {
    int n;
    Pages pages;
  };

  /// Looks up a block's pages. This must come long before their load, because a look-up has the latency of a
  /// load.
  FA2_DEVICE Pages pages_of(const SequenceShape& shape, const KeyBlocks<Config>& blocks, int n) const {
    Pages found{};
    if constexpr (paged) {
      if (n >= blocks.begin && n < blocks.end)
        found.look_up(key_pages<Config>(params.attention, shape), Pages::first_key(n, warp));
    }
    return found;
  }

  FA2_DEVICE TensorRows key_rows(const SequenceShape& shape, const TileCoordinates& at, int n) const {
    const int first_key = Mask<Config>::has_begin ? params.attention.first_key : 0;
    return {shape.k_begin, n * Config::tile_n - first_key, kv_head(at), shape.k_entry};
  }

  FA2_DEVICE int kv_head(const TileCoordinates& at) const {
    return at.head / params.attention.queries_per_kv;
  }

  /// Loads a block of K. `next`: the one that follows, if any.
  FA2_DEVICE void load_keys(const Mask<Config>& mask, const TileCoordinates& at, const Block& block,
                            const Block& next) {
    const typename Layout::KeyTile tile = shared.keys(state.index);
    if constexpr (widens) {
      widen(tile, params.attention.k, params.attention.k_strides, mask, at, block, next);
    } else if constexpr (gathers) {
      gather<Config::head_dim>(tile, params.attention.k, params.attention.k_strides, mask, at, block);
    } else if constexpr (Config::values_in_keys && Config::varlen) {
      load_seen_rows<Config::head_dim>(tile, params.k, mask, at, block);
    } else if constexpr (paged) {
      start_load_of_pages<Config::head_dim>(tile, params.k, at, block, shared.slot_full(state.index));
    } else {
      const TensorRows from = key_rows(mask.shape, at, block.n);
      start_load<TensorShape<Config::head_dim>>(tile, params.k, from, shared.slot_full(state.index));
    }
    state.advance();
  }

  /// Loads a block of V. Rows that no query sees may hold NaN, and 0 * NaN is NaN, so they must not reach
  /// shared memory. If all sequences have equal lengths, the tensor map ends where the keys do.
  FA2_DEVICE void load_values(const Mask<Config>& mask, const TileCoordinates& at, const Block& block,
                              const Block& next) {
    const typename Layout::ValueTile tile = shared.values(state.index);
    if constexpr (widens) {
      widen(tile, params.attention.v, params.attention.v_strides, mask, at, block, next);
    } else if constexpr (gathers) {
      gather<Config::head_dim_v>(tile, params.attention.v, params.attention.v_strides, mask, at, block);
    } else if constexpr (Config::varlen) {
      load_seen_rows<Config::head_dim_v>(tile, params.v, mask, at, block);
    } else {
      const TensorRows from = key_rows(mask.shape, at, block.n);
      start_load<TensorShape<Config::head_dim_v>>(tile, params.v, from, shared.slot_full(state.index));
    }
    state.advance();
  }

  /// Loads a block of V, or of K with V in it, with varlen. Without pages, TMA leaves out rows after the sequence's last one. Rows
  /// that it cannot leave out are cleared before the slot becomes full: those in pages, and those before the
  /// first that a query sees.
  template <int kCols, class Tile>
  FA2_DEVICE void load_seen_rows(Tile tile, const TensorMap& map, const Mask<Config>& mask,
                                 const TileCoordinates& at, const Block& block) {
    const RowsWithin seen = mask.seen_rows(block.n * Config::tile_n);
    const bool clears = (Mask<Config>::has_begin && seen.begin > 0) || (paged && seen.end < Config::tile_n);
    const SharedAddress full = clears ? shared.edge_full() : shared.slot_full(state.index);
    if constexpr (paged) {
      start_load_of_pages<kCols>(tile, map, at, block, full);
    } else {
      TensorRows from = key_rows(mask.shape, at, block.n);
      from.row = params.attention.seqlen_k - seen.end;
      from.begin += block.n * Config::tile_n + seen.end;
      start_load<RaggedShape<kCols>>(tile, map, from, full);
    }
    if (clears) {
      ptx::mbarrier_wait(shared.edge_full(), edge_phase);
      edge_phase ^= 1;
      clear_rows_outside<32>(tile, seen, ptx::lane_index());
      ptx::bar_warp_sync();
      if (ptx::elect_one()) ptx::mbarrier_arrive(shared.slot_full(state.index));
      ptx::bar_warp_sync();
    }
  }

  /// Leaves the next slots to the consumers, one for the output of each warpgroup.
  FA2_DEVICE void hand_slots_to_outputs() {
    FA2_NO_UNROLL
    for (int w = 0; w < Layout::warpgroups; ++w) {
      await_empty_slot();
      if (copies_rows<Config> || ptx::elect_one()) ptx::mbarrier_arrive(shared.slot_full(state.index));
      ptx::bar_warp_sync();
      state.advance();
    }
  }

  FA2_DEVICE void await_empty_slot() const {
    ptx::mbarrier_wait(shared.slot_empty(state.index), state.phase ^ 1);
  }

  /// Loads a tile into the next slot as soon as it is empty.
  template <class Shape, class Tile>
  FA2_DEVICE void start_load(Tile tile, const TensorMap& map, const TensorRows& from, SharedAddress full) {
    await_empty_slot();
    if (ptx::elect_one()) {
      ptx::mbarrier_arrive_expect_tx(full, Tile::bytes);
      tma_load_tile<Shape>(tile, map, from, full);
    }
    ptx::bar_warp_sync();
  }

  /// Like start_load(), for a paged block.
  template <int kCols, class Tile>
  FA2_DEVICE void start_load_of_pages(Tile tile, const TensorMap& map, const TileCoordinates& at,
                                      const Block& block, SharedAddress full) {
    await_empty_slot();
    if (ptx::elect_one()) ptx::mbarrier_arrive_expect_tx(full, Tile::bytes);
    load_pieces<kCols>(tile, map, block.pages, Pages::first_key(block.n, warp), kv_head(at), full);
  }

  /// Gathers this warp's rows of a paged block into the next slot.
  template <int kCols, class Tile>
  FA2_DEVICE void gather(Tile tile, const void* data, const Strides& strides, const Mask<Config>& mask,
                         const TileCoordinates& at, const Block& block) {
    await_empty_slot();
    const u16* const of_head = static_cast<const u16*>(data) + kv_head(at) * strides.head_stride;
    gather_rows<kCols>(tile, warp * Pages::pieces, Pages::first_key(block.n, warp), of_head, strides,
                       block.pages, mask.seen_rows(block.n * Config::tile_n));
    ptx::cp_async_mbarrier_arrive(shared.slot_full(state.index));
  }

  /// Widens this warp's rows of a block in the next slot. Those of the next block come to L2 meanwhile.
  template <class Tile>
  FA2_DEVICE void widen(Tile tile, const void* data, const Strides& strides, const Mask<Config>& mask,
                        const TileCoordinates& at, const Block& block, const Block& next) {
    using Rows = WidenedRows<Config, Tile>;
    const SequenceShape& shape = mask.shape;
    const u16* const begin =
        paged ? head_rows<0>(data, strides, 0, kv_head(at), 0).data
              : head_rows<0>(data, strides, shape.k_entry, kv_head(at), shape.k_begin).data;
    const RowOffsets<Config> offsets(block.pages, Pages::first_key(block.n, warp), strides);
    const RowsWithin seen = mask.seen_rows(block.n * Config::tile_n);
    Rows rows{tile, warp * Rows::rows};
    await_empty_slot();
    FA2_UNROLL
    for (int pass = 0; pass < Rows::passes; ++pass) {
      const i64 offset = offsets.of(rows.row(pass) - rows.first_row);
      rows.start(pass, begin + offset, seen.has(rows.row(pass)) && offset != RowOffsets<Config>::kNoRow);
    }
    if (next.n != kNoBlock) prefetch<Rows::row_bytes>(begin, strides, mask, next);
    rows.finish();
    ptx::fence_proxy_async_shared();
    ptx::mbarrier_arrive(shared.slot_full(state.index));
  }

  /// Brings this warp's rows of a block to L2, a row a lane.
  template <int kBytes>
  FA2_DEVICE void prefetch(const u16* begin, const Strides& strides, const Mask<Config>& mask,
                           const Block& block) const {
    const RowOffsets<Config> offsets(block.pages, Pages::first_key(block.n, warp), strides);
    const RowsWithin seen = mask.seen_rows(block.n * Config::tile_n);
    const int row = ptx::lane_index();
    if (row >= Pages::pieces || !seen.has(warp * Pages::pieces + row)) return;
    if (offsets.own[0] == RowOffsets<Config>::kNoRow) return;
    const char* const from = reinterpret_cast<const char*>(begin + offsets.own[0]);
    FA2_UNROLL
    for (int byte = 0; byte < kBytes; byte += 128) ptx::prefetch_l2(from + byte);
  }

  FA2_DEVICE void load_queries(const SequenceShape& shape, const TileCoordinates& at, TileTurn turn) {
    const int buffer = turn.place(Config::q_buffers);
    ptx::mbarrier_wait(shared.queries_empty(buffer), turn.parity(Config::q_buffers) ^ 1);
    if (ptx::elect_one()) {
      const SharedAddress full = shared.queries_full(buffer);
      constexpr int kBytesPerRow = Layout::warpgroups * Layout::QueryTile::bytes / 64;
      ptx::mbarrier_arrive_expect_tx(full, rows_of_box(params.attention.packing) * kBytesPerRow);
      FA2_UNROLL
      for (int w = 0; w < Layout::warpgroups; ++w) {
        const int first_row = at.q_tile * Config::tile_m + 64 * w;
        tma_load_tile<PackedShape<Config::head_dim>>(
            shared.queries(buffer, w), params.q, query_box<Config>(params.attention, shape, at, first_row),
            full);
      }
    }
    ptx::bar_warp_sync();
  }
};

/// Prefetches the tensor maps long before the first load. All threads may call it.
template <class Config>
FA2_DEVICE void prefetch_tensor_maps(const AttentionParamsSm90& params) {
  if (ptx::thread_index() != 0) return;
  ptx::prefetch_tensor_map(params.q);
  if constexpr (copies_rows<Config>) return;
  ptx::prefetch_tensor_map(params.k);
  ptx::prefetch_tensor_map(params.v);
}

/// Runs one warp of the block's first warpgroup as a producer, if it is needed.
template <class Config>
FA2_DEVICE void produce(const AttentionParamsSm90& params, const SharedLayoutSm90<Config>& shared, int warp) {
  if (warp >= loading_warps<Config>) return;
  constexpr bool begins_early = Config::schedule == kSplitKeys;
  Producer<Config> producer{params, shared, warp, {}};
  if (begins_early && (Config::varlen || warp > 0))
    ptx::wait_for_launches_before();  // lengths are in memory
                                      // that a previous
                                      // launch may write
  if (warp == 0) {
    auto tiles = scheduler_of<Config>(params, shared);
    if (begins_early && !Config::varlen) ptx::wait_for_launches_before();
    return producer.run(tiles);
  }
  if constexpr (copies_rows<Config>) producer.run(TileFollower<Config>{params, shared});
}

}  // namespace fa2
