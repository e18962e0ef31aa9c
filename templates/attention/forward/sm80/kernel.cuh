// The sm80 forward kernel, on mma.sync and cp.async.
//
// Launch: one thread block per query tile and head (scheduler.cuh).
// Block: loads Q, runs the main loop over K and V, and stores O and the LSE. All threads load each KV block
// together.
// Warp: computes its own query rows, and needs no other warp's scores.
// Shared memory: Q, then the ring of KV blocks; at the end the output tile reuses both (shared_layout.cuh).
#pragma once

#include "attention/common/epilogue.cuh"
#include "attention/common/varlen_tiles.cuh"
#include "attention/forward/sm80/mainloop.cuh"

namespace fa2 {

/// Loads Q into shared memory and, with Config::q_in_registers, on into registers. On return the ring's first
/// loads are in flight.
template <class Config>
FA2_DEVICE void load_queries(QueryOperand<Config>& q, const QueryRows<Config, Config::head_dim>& rows,
                             KeyValueRing<Config>& ring) {
  load_rows<Config::warps * 32, Config::rows_are_16_byte_aligned, Config::head_dim>(q.tile, rows, rows,
                                                                                    ptx::thread_index());
  ptx::cp_async_commit_group();
  if constexpr (Config::q_in_registers) {
    ptx::cp_async_wait_group<0>();
  } else {
    ring.start();
    ptx::cp_async_wait_group<KeyValueRing<Config>::started_groups>();
  }
  ptx::bar_sync();
  q.template prepare<1>(0);
  if constexpr (Config::q_in_registers) {
    q.read_into_registers();
    ptx::bar_sync();  // the ring overwrites Q
    ring.start();
  }
}

template <class Config>
FA2_DEVICE void attention_forward(const AttentionParamsSm80& all) {
  const AttentionParams& params = all.attention;
  using Layout = SharedLayout<Config>;
  static_assert(Layout::bytes == Config::shared_bytes,
                "the host launches with exactly the memory that the kernel lays out");
  const SharedAddress shared = ptx::dynamic_shared();
  auto tiles = tiles_of<Config>(params);
  if (Config::varlen && ptx::block_index() >= tiles.count()) return;
  const TileCoordinates at = tiles.at(ptx::block_index());
  const Mask<Config> mask = mask_of<Config>(params, shape_of<Config>(params, at.batch));
  const SequenceShape& shape = mask.shape;
  const ScoreMod<Config> score_mod = score_mod_of<Config>(params, shape, at);
  const int tile_row = at.q_tile * Config::tile_m;
  const int warp_row = ptx::warp_index() * 16 * MainloopSm80<Config>::m_tiles;
  const int kv_head = at.head / params.queries_per_kv;

  KeyValueRing<Config> ring;
  ring.k = KeyValueRing<Config>::Keys::of(params, params.k, params.k_strides, shape, kv_head);
  ring.v = KeyValueRing<Config>::Values::of(params, params.v, params.v_strides, shape, kv_head);
  ring.blocks = key_blocks(mask, tile_row, Config::tile_m);
  set_map(ring.blocks, params, at);
  ring.base = shared + Layout::ring_start;
  QueryOperand<Config> q;
  q.tile = {shared};
  q.first_row = warp_row;
  load_queries(q, {params, params.q, params.q_strides, shape, at}, ring);

  MainloopSm80<Config> mainloop;
  mainloop.output.clear();
  mainloop.softmax.start(score_mod.scale_log2());
  const Dropout<Config> dropout =
      dropout_of<Config>(params).of_head(shape, at.batch * params.heads_q + at.head);
  const Descales<Config> descales = descales_of<Config>(params, at.batch, kv_head);
  mainloop.run(mask, score_mod, dropout, descales, tile_row + warp_row, q, ring);
  mainloop.softmax.normalize(mainloop.output, Sinks<Config>{params, at, tile_row + warp_row});
  dropout.rescale(mainloop.output);
  descales.scale_output(mainloop.output);
  store_lse<Config>(params, shape, at, tile_row + warp_row, mainloop.softmax);
  mainloop.largest.store(all.max_logits, params, shape, at, tile_row + warp_row, score_mod.scale_log2());
  store_output<Config>(params, shape, at, warp_row, mainloop.output, shared);
}

}  // namespace fa2
