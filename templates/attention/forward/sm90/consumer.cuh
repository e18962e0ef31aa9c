// A consumer warpgroup, which owns 64 rows of each of the block's output tiles.
#pragma once

#include "attention/common/epilogue.cuh"
#include "attention/forward/sm90/mainloop.cuh"
#include "attention/forward/sm90/tile_schedule.cuh"
#include "attention/forward/split_keys.cuh"
#include "ptx/dependent_launch.cuh"

namespace fa2 {

/// A warpgroup as a team for splits of a tile: it has 64 of the rows.
template <class Config>
struct WarpgroupTeam {
  static constexpr int warps = 4, rows = 64, teams = Config::warps / 4;
  int number;
  FA2_DEVICE void sync() const { sync_warpgroup(number); }
  FA2_DEVICE static int warp() { return ptx::warp_index() % 4; }
};

/// Returns how many of the 64 rows from `first_row` on the producer has loaded for this sequence.
template <class Config>
FA2_DEVICE int rows_of_queries(const AttentionParams& params, const SequenceShape& shape, int first_row) {
  const int loaded = rows_of_box(params.packing), left = shape.rows - first_row;
  return Config::varlen && left < loaded ? left : loaded;
}

template <class Config>
FA2_DEVICE void consume(const AttentionParamsSm90& params, const SharedLayoutSm90<Config>& shared,
                        int warpgroup) {
  if constexpr (Config::schedule == kSplitKeys) ptx::wait_for_launches_before();
  const AttentionParams& attention = params.attention;
  const WarpgroupOrder<Config> order{warpgroup};
  KeyValueReader<Config> ring{shared, {}};
  StagedReader<Config> staged{shared, warpgroup};
  TileFollower<Config> tiles{params, shared};
  OutputStore<Config> store{params, shared, tiles.turn, ring, warpgroup};
  order.start();
  for (;; tiles.advance()) {
    const SequenceTile tile = tiles.current();
    if (!tile.exist()) break;
    const TileCoordinates& at = tile.at;
    const int group_row = at.q_tile * Config::tile_m + 64 * warpgroup;
    const int warp_row = group_row + ptx::warp_index() % 4 * 16;
    const Mask<Config> mask = mask_of<Config>(attention, tile.shape);
    ScoreMod<Config> score_mod = score_mod_of<Config>(attention, mask.shape, at);
    const int buffer = tiles.turn.place(Config::q_buffers);
    ptx::mbarrier_wait(shared.queries_full(buffer), tiles.turn.parity(Config::q_buffers));
    const auto queries = shared.queries(buffer, warpgroup);
    const int own_rows = rows_of_queries<Config>(attention, mask.shape, group_row);
    if (own_rows < 64) {
      // Clears rows that nothing has loaded, or that belong to the next sequence: a warp's decisions for all of
      // its rows would depend on them.
      clear_rows_outside<128>(queries, {0, own_rows}, ptx::thread_index() % 128);
      sync_warpgroup(warpgroup);
    }
    const Dropout<Config> dropout =
        dropout_of<Config>(attention).of_head(mask.shape, at.batch * attention.heads_q + at.head);
    const Descales<Config> descales =
        descales_of<Config>(attention, at.batch, at.head / attention.queries_per_kv);
    MainloopSm90<Config> mainloop{mask, score_mod, dropout, descales, order,
                                  ring, staged,    store,   queries,  warp_row};
    mainloop.softmax.start(score_mod.scale_log2());
    KeyBlocks<Config> loaded =
        of_part<Config>(key_blocks(mask, at.q_tile * Config::tile_m, Config::tile_m), tile.part);
    KeyBlocks<Config> own = of_part<Config>(key_blocks(mask, group_row, 64), tile.part);
    set_map(loaded, attention, at);
    set_map(own, attention, at);
    mainloop.run(loaded, own);
    const TilePart<Config, WarpgroupTeam<Config>> part{attention, params.shares, tile, {warpgroup}};
    mainloop.largest.store(params.max_logits, attention, mask.shape, at, warp_row, score_mod.scale_log2());
    mainloop.softmax.normalize(mainloop.output, Sinks<Config>{attention, at, warp_row, part.is_first()});
    dropout.rescale(mainloop.output);
    descales.scale_output(mainloop.output);
    if constexpr (Config::schedule == kSplitKeys) {
      if (part.is_of_several()) {
        PartRow<Config>::store(mainloop.output, mainloop.softmax, 16 * part.team.warp(), part.row_count(),
                               [&](int row) { return part.own_row(row); });
        part.team.sync();
        store.skip();
        // An address that is computed again, because wide heads leave no register to keep it in.
        const SharedLayoutSm90<Config> same{ptx::renewed(shared.base)};
        part.merge(same.all_are_stored(warpgroup), mainloop.softmax.scale_log2);
        continue;
      }
    }
    store_lse<Config>(attention, mask.shape, at, warp_row, mainloop.softmax);
    store.start(mainloop.output, mask.shape, at, group_row);
  }
}

}  // namespace fa2
