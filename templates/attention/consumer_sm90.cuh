// A consumer warpgroup: the rows it owns of every output tile of the block.
#pragma once

#include "attention/epilogue.cuh"
#include "attention/epilogue_sm90.cuh"
#include "attention/mainloop_sm90.cuh"
#include "attention/tile_schedule_sm90.cuh"

namespace fa2 {

template <class Config>
FA2_DEVICE void consume(const AttentionParamsSm90& params, const SharedLayoutSm90<Config>& shared,
                        int warpgroup) {
  const AttentionParams& attention = params.attention;
  const Mask<Config> mask{attention.seqlen_q, attention.seqlen_k};
  const Turns<Config> turns{warpgroup};
  KeyValueReader<Config> ring{shared, {}};
  RingCursor<Config::q_buffers> buffer;
  turns.start();
  TileFollower<Config> tiles{params, shared, {}, 0};
  for (u32 tile = tiles.first(); tile != kNoTile; tile = tiles.next()) {
    const TileCoordinates at = tile_of(tile, attention);
    const int group_row = at.q_tile * Config::tile_m + 64 * warpgroup;
    const int warp_row = group_row + ptx::warp_index() % 4 * 16;
    ptx::mbarrier_wait(shared.queries_full(buffer.slot), buffer.parity);
    MainloopSm90<Config> mainloop{
        mask, turns, ring, shared.queries(buffer.slot, warpgroup), warp_row, attention.scale < 0.0f};
    mainloop.softmax.start(attention.scale_log2);
    mainloop.run(block_range(mask, at.q_tile * Config::tile_m, Config::tile_m).end,
                 block_range(mask, group_row, 64));
    mainloop.softmax.finish(mainloop.output);
    store_lse<Config>(attention, at, warp_row, mainloop.softmax);
    store_output<Config>(shared.output(buffer.slot, warpgroup), mainloop.output, params,
                         {group_row, at.head, at.batch}, warpgroup, shared.queries_empty(buffer.slot));
    buffer.advance();
  }
}

}  // namespace fa2
