// Forward for head dims beyond 256, on mma.sync and cp.async: warps share rows, and each owns columns of their output.
//
// Launch: one thread block per query tile; or each takes an equal range of KV blocks, tile after tile (split_tiles.cuh), and
// with batch_invariant the splits of fixed size that begin in its range.
// Block: loads Q, runs the main loop over its KV blocks, which all warps load together, and stores O and the LSE. If a tile
// has several splits, it stores a partial output, and the last block to finish merges all of them (split_keys.cuh).
// Warp: shares its query rows with Config::column_warps - 1 others (shared_products.cuh).
// Shared memory: the query tile, the ring of KV blocks, the scores, and a word; at the end the output reuses the first two.
#pragma once

#include "attention/common/epilogue.cuh"
#include "attention/forward/sm80/mainloop.cuh"
#include "attention/forward/sm80/shared_products.cuh"
#include "attention/forward/split_keys.cuh"
#include "ptx/dependent_launch.cuh"

namespace fa2 {

template <class Config>
struct WideLayout {
  using Row = SharedLayout<RowWarpsConfig<Config>>;
  using Products = SharedProducts<RowWarpsConfig<Config>>;
  using OutputTile = SharedTile<16 * Products::m_tiles, Products::cols>;
  static constexpr int scores_start =
      Row::ring_end > Config::warps* OutputTile::bytes ? Row::ring_end : Config::warps* OutputTile::bytes;
  static constexpr int known_start = scores_start + Products::bytes;
  static_assert(known_start + 16 == Config::shared_bytes,
                "the host launches with exactly the memory that the kernel lays out");

  SharedAddress base;

  FA2_DEVICE SharedAddress scores() const { return base + static_cast<u32>(scores_start); }
  FA2_DEVICE OutputTile output(int warp) const { return {base + static_cast<u32>(warp * OutputTile::bytes)}; }
  /// Returns the address of a word: whether all splits of the tile are stored.
  FA2_DEVICE SharedAddress all_are_stored() const { return base + static_cast<u32>(known_start); }
};

/// The columns of O from `first_col` on that a warp owns, as a destination of store_tile().
template <class Config>
struct OutputColumns {
  QueryRows<Config, Config::head_dim_v> rows;
  int first_row;
  int first_col;
  int cols;

  FA2_DEVICE bool has(int row) const { return rows.has(first_row + row); }
  FA2_DEVICE const u16* row(int number) const { return rows.row(first_row + number) + first_col; }
};

/// A block's loop over the KV blocks of one split of a tile.
template <class Config>
struct WideTile {
  using Row = RowWarpsConfig<Config>;
  using Layout = WideLayout<Config>;
  using Products = typename Layout::Products;
  using Ring = KeyValueRing<Row, WholeBlock<Config>>;

  const AttentionParamsSplit& all;
  const SequenceTile& tile;
  const Layout& layout;
  MainloopSm80<Row, Products> mainloop;

  FA2_DEVICE int tile_row() const { return tile.at.q_tile * Config::tile_m; }
  FA2_DEVICE int kv_head() const { return tile.at.head / all.attention.queries_per_kv; }
  FA2_DEVICE int first_row() const { return tile_row() + mainloop.products.first_row(); }

  FA2_DEVICE void run(bool is_first) {
    const AttentionParams& params = all.attention;
    const SequenceShape& shape = tile.shape;
    const Mask<Row> mask = mask_of<Row>(params, shape);
    const ScoreMod<Row> score_mod = score_mod_of<Row>(params, shape, tile.at);
    Ring ring;
    ring.k = Ring::Keys::of(params, params.k, params.k_strides, shape, kv_head());
    ring.v = Ring::Values::of(params, params.v, params.v_strides, shape, kv_head());
    ring.blocks = of_part<Row>(key_blocks(mask, tile_row(), Config::tile_m), tile.part);
    ring.base = layout.base + static_cast<u32>(Layout::Row::ring_start);
    const QueryOperand<Row> q = load_queries(ring);
    mainloop.output.clear();
    mainloop.softmax.start(score_mod.scale_log2());
    const Dropout<Row> dropout =
        dropout_of<Row>(params).of_head(shape, tile.at.batch * params.heads_q + tile.at.head);
    const Descales<Row> descales = descales_of<Row>(params, tile.at.batch, kv_head());
    mainloop.run(mask, score_mod, dropout, descales, first_row(), q, ring);
    if (mainloop.products.first_col() == 0)
      mainloop.largest.store(all.max_logits, params, shape, tile.at, first_row(), score_mod.scale_log2());
    mainloop.softmax.normalize(mainloop.output, Sinks<Row>{params, tile.at, first_row(), is_first});
    dropout.rescale(mainloop.output);
    descales.scale_output(mainloop.output);
  }

  /// Stores a partial output, for a later merge.
  template <class Part>
  FA2_DEVICE void store_part(const Part& part) const {
    PartRow<Config>::store(
        mainloop.output, mainloop.softmax, mainloop.products.first_row(), part.row_count(),
        [&](int row) { return part.own_row(row); }, mainloop.products.first_col());
    ptx::bar_sync();
  }

  /// Stores the warp's columns of O and, if it has the first ones, the LSE.
  FA2_DEVICE void store(int warp) const {
    const AttentionParams& params = all.attention;
    const int first_col = mainloop.products.first_col();
    if (first_col == 0) store_lse<Config>(params, tile.shape, tile.at, first_row(), mainloop.softmax);
    if constexpr (Config::float32_out)
      return store_float_output<Config>(params, tile.shape, tile.at, first_row(), mainloop.output, first_col);
    const auto own = layout.output(warp);
    ptx::bar_sync();  // it lies where other warps may still be reading
    round_into_tile<typename Config::Element>(own, 0, mainloop.output);
    ptx::bar_warp_sync();
    const OutputColumns<Config> to{{params, params.o, params.o_strides, tile.shape, tile.at},
                                   mainloop.products.first_row(),
                                   first_col,
                                   Config::head_dim_v - first_col};
    store_tile<Config::rows_are_16_byte_aligned, 16 * Products::m_tiles>(to, own, 0, to);
  }

 private:
  /// Loads the tile's queries with all warps. On return the ring's first loads are in flight.
  FA2_DEVICE QueryOperand<Row> load_queries(Ring& ring) const {
    QueryOperand<Row> q;
    q.tile = {layout.base};
    q.first_row = mainloop.products.first_row();
    const AttentionParams& params = all.attention;
    const QueryRows<Config, Config::head_dim> rows{params, params.q, params.q_strides, tile.shape, tile.at};
    load_rows<32 * Config::warps, Config::rows_are_16_byte_aligned, Config::head_dim>(q.tile, rows, rows,
                                                                                      ptx::thread_index());
    ptx::cp_async_commit_group();
    ring.start();
    ptx::cp_async_wait_group<Ring::started_groups>();
    ptx::bar_sync();
    q.template prepare<Config::column_warps>(mainloop.products.number);
    return q;
  }
};

/// Computes one split of a tile, or the tile.
template <class Config>
FA2_DEVICE void compute(const AttentionParamsSplit& params, const WideLayout<Config>& layout,
                        const SequenceTile& tile) {
  const int warp = ptx::warp_index();
  const TilePart<Config, BlockTeam<Config>> part{params.attention, params.shares, tile, {}};
  WideTile<Config> wide{params, tile, layout, {}};
  wide.mainloop.products = WideLayout<Config>::Products::of_warp(warp, layout.scores());
  wide.run(part.is_first());
  if constexpr (Config::schedule == kSplitKeys) {
    if (part.is_of_several()) {
      wide.store_part(part);
      return part.merge(layout.all_are_stored(), wide.mainloop.softmax.scale_log2);
    }
  }
  wide.store(warp);
}

template <class Config>
FA2_DEVICE void attention_forward_wide(const AttentionParamsSplit& params) {
  const AttentionParams& attention = params.attention;
  const WideLayout<Config> layout{ptx::dynamic_shared()};
  if constexpr (Config::schedule == kSplitKeys) {
    ptx::launch_dependents();
    if constexpr (Config::varlen)
      ptx::wait_for_launches_before();  // lengths are in memory that a previous launch may write
    SplitTiles<Config> tiles(attention, params.shares);
    if constexpr (!Config::varlen) ptx::wait_for_launches_before();
    for (SequenceTile tile = tiles.next(); tile.exist(); tile = tiles.next()) {
      compute(params, layout, tile);
      ptx::bar_sync();  // the next tile's queries and keys lie where the output does
    }
  } else {
    auto tiles = tiles_of<Config>(attention);
    if (Config::varlen && ptx::block_index() >= tiles.count()) return;
    const TileCoordinates at = tiles.at(ptx::block_index());
    compute(params, layout, SequenceTile{at, shape_of<Config>(attention, at.batch)});
  }
}

}  // namespace fa2
