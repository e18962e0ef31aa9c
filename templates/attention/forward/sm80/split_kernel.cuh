// Forward for few queries and many keys, on mma.sync and cp.async: split KV on two levels.
//
// Launch: each thread block takes an equal range of KV blocks, tile after tile (split_tiles.cuh). With
// batch_invariant, it takes the splits of fixed size that begin in its range.
// Block: each warp takes an equal, contiguous part of the block's split, through a ring of its own. In its
// loop it waits for no other warp.
// Merge: the block merges its warps' partial outputs in shared memory, row by row (part_merge.cuh). If a tile
// has several splits, the block stores its own in global memory, and the last block to finish merges all of
// them (split_keys.cuh).
// Shared memory: the query tile, then one region per warp, first for its ring and later for its partial
// output.
#pragma once

#include "attention/common/epilogue.cuh"
#include "attention/forward/sm80/mainloop.cuh"
#include "attention/forward/split_keys.cuh"
#include "ptx/dependent_launch.cuh"

namespace fa2 {

/// Config of a single warp.
template <class Config>
struct OneWarpConfig : Config {
  static constexpr int warps = 1;
};

/// Shared memory: the query tile, then one region per warp for its ring and later its partial output, then a
/// word.
template <class Config>
struct SplitLayout {
  using OfWarp = SharedLayout<OneWarpConfig<Config>>;
  using QueryTile = typename OfWarp::QueryTile;
  static constexpr int ring_bytes = Config::stages * OfWarp::slot_bytes;
  static constexpr int part_bytes = Config::tile_m * PartRow<Config>::stride * 4;
  static constexpr int warp_bytes = ring_bytes > part_bytes ? ring_bytes : part_bytes;
  static constexpr int known_start = QueryTile::bytes + Config::warps * warp_bytes;
  static_assert(known_start + 16 == Config::shared_bytes,
                "the host launches with exactly the memory that the kernel lays out");

  SharedAddress base;

  FA2_DEVICE QueryTile queries() const { return {base}; }
  FA2_DEVICE SharedAddress of_warp(int warp) const {
    return base + static_cast<u32>(QueryTile::bytes + warp * warp_bytes);
  }
  /// Returns the address of a word: whether all splits of the tile are stored.
  FA2_DEVICE SharedAddress all_are_stored() const { return base + static_cast<u32>(known_start); }
};

/// The warps' partial outputs for one row, or for its columns from some column on.
template <class Config>
struct WarpParts {
  static constexpr int count = Config::warps;
  SharedAddress begin;

  /// `number`: row in the tile.
  FA2_DEVICE static WarpParts of_row(const SplitLayout<Config>& layout, int number) {
    return {layout.of_warp(0) + static_cast<u32>(number * PartRow<Config>::stride * 4)};
  }
  FA2_DEVICE WarpParts from_column(int col) const { return {begin + static_cast<u32>(4 * col)}; }
  FA2_DEVICE SharedPartRow row(int warp) const {
    return {begin + static_cast<u32>(warp * SplitLayout<Config>::warp_bytes)};
  }
};

/// Returns a warp's part of the split's KV blocks. Parts are contiguous and equal, except the last.
template <class Blocks>
FA2_DEVICE Blocks share_of_warp(const Blocks& blocks, int warp, int warps) {
  const int count = (blocks.end - blocks.begin + warps - 1) / warps;
  const int begin = blocks.begin + warp * count;
  return blocks.within(begin, begin + count);
}

/// Loads the tile's queries with all warps. On return the ring's first loads are in flight.
template <class Config, class Ring>
FA2_DEVICE void load_queries(QueryOperand<OneWarpConfig<Config>>& q,
                             const QueryRows<Config, Config::head_dim>& rows, Ring& ring) {
  load_rows<32 * Config::warps, Config::rows_are_16_byte_aligned, Config::head_dim>(q.tile, rows, rows,
                                                                                    ptx::thread_index());
  ptx::cp_async_commit_group();
  ring.start();
  ptx::cp_async_wait_group<Ring::started_groups>();
  ptx::bar_sync();
  q.template prepare<Config::warps>(ptx::warp_index());
  if constexpr (Config::q_in_registers) q.read_into_registers();
}

/// Computes this warp's part of a split and leaves its partial output in shared memory. Returns the softmax's
/// scale.
template <class Config>
FA2_DEVICE float attend(const AttentionParamsSplit& all, const SequenceTile& tile, bool is_first,
                        const SplitLayout<Config>& layout) {
  const AttentionParams& params = all.attention;
  using Warp = OneWarpConfig<Config>;
  const TileCoordinates& at = tile.at;
  const int warp = ptx::warp_index(), tile_row = at.q_tile * Config::tile_m;
  const Mask<Warp> mask = mask_of<Warp>(params, tile.shape);
  const ScoreMod<Warp> score_mod = score_mod_of<Warp>(params, mask.shape, at);
  const int kv_head = at.head / params.queries_per_kv, row_count = mask.shape.rows - tile_row;

  KeyValueRing<Warp, OneWarp> ring;
  ring.k = decltype(ring)::Keys::of(params, params.k, params.k_strides, mask.shape, kv_head);
  ring.v = decltype(ring)::Values::of(params, params.v, params.v_strides, mask.shape, kv_head);
  ring.blocks = share_of_warp(of_part<Warp>(key_blocks(mask, tile_row, Config::tile_m), tile.part), warp,
                              Config::warps);
  ring.base = layout.of_warp(warp);
  QueryOperand<Warp> q;
  q.tile = layout.queries();
  q.first_row = 0;
  load_queries<Config>(q, {params, params.q, params.q_strides, mask.shape, at}, ring);

  MainloopSm80<Warp> mainloop;
  mainloop.output.clear();
  mainloop.softmax.start(score_mod.scale_log2());
  const Dropout<Warp> dropout =
      dropout_of<Warp>(params).of_head(tile.shape, at.batch * params.heads_q + at.head);
  const Descales<Warp> descales = descales_of<Warp>(params, at.batch, kv_head);
  mainloop.run(mask, score_mod, dropout, descales, tile_row, q, ring);
  mainloop.largest.store(all.max_logits, params, mask.shape, at, tile_row, score_mod.scale_log2());
  mainloop.softmax.normalize(mainloop.output, Sinks<Warp>{params, at, tile_row, is_first && warp == 0});
  dropout.rescale(mainloop.output);
  descales.scale_output(mainloop.output);
  ptx::bar_warp_sync();  // the part lies where other lanes may still be reading K and V
  PartRow<Config>::store(mainloop.output, mainloop.softmax, 0, row_count,
                         [&](int row) { return WarpParts<Config>::of_row(layout, row).row(warp); });
  return mainloop.softmax.scale_log2;
}

/// Merges the warps' partial outputs of a split into the output, or into the block's partial output.
template <class Part, class Config>
FA2_DEVICE void merge_warps(const Part& part, const SplitLayout<Config>& layout, float scale_log2) {
  using Row = MergedRow<Config, lanes_for_many_parts<Config>, Config::warps>;
  const int rows = part.row_count();
  for (int first = ptx::warp_index() * Row::rows_of_warp; first < rows;
       first += Config::warps * Row::rows_of_warp) {
    const int row = first + Row::number();
    Row merged{scale_log2};
    merged.add(WarpParts<Config>::of_row(layout, row < rows ? row : first));
    if (row >= rows) continue;
    if (part.is_of_several()) {
      merged.store_as_part(part.own_row(row));
    } else {
      merged.finish(part.params, part.tile.shape, part.tile.at, part.first_row() + row);
    }
  }
}

template <class Config>
FA2_DEVICE void attention_forward_split(const AttentionParamsSplit& params) {
  const AttentionParams& attention = params.attention;
  const SplitLayout<Config> layout{ptx::dynamic_shared()};
  ptx::launch_dependents();
  if constexpr (Config::varlen)
    ptx::wait_for_launches_before();  // lengths are in memory that a previous
                                      // launch may write
  SplitTiles<Config> tiles(attention, params.shares);
  if constexpr (!Config::varlen) ptx::wait_for_launches_before();
  for (SequenceTile tile = tiles.next(); tile.exist(); tile = tiles.next()) {
    const TilePart<Config, BlockTeam<Config>> part{attention, params.shares, tile, {}};
    const float scale_log2 = attend<Config>(params, tile, part.is_first(), layout);
    ptx::bar_sync();
    merge_warps(part, layout, scale_log2);
    ptx::bar_sync();  // the next tile's queries and keys reuse the parts' memory
    if (part.is_of_several()) part.merge(layout.all_are_stored(), scale_log2);
  }
}

}  // namespace fa2
