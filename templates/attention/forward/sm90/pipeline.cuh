// Synchronisation between producer and consumers: rings of mbarriers.
#pragma once

#include "attention/common/key_pages.cuh"
#include "attention/common/kv_type.cuh"
#include "attention/forward/sm90/shared_layout.cuh"
#include "ptx/barrier.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/proxy.cuh"

namespace fa2 {

/// A slot in a ring of kSlots, and the parity of passes through the ring.
template <int kSlots>
struct PipelineState {
  int index = 0;
  u32 phase = 0;

  FA2_DEVICE void advance() {
    if (++index == kSlots) {
      index = 0;
      phase ^= 1;
    }
  }
  /// Returns the previous slot.
  FA2_DEVICE PipelineState before() const {
    if (index == 0) return {kSlots - 1, phase ^ 1};
    return {index - 1, phase};
  }
};

/// Counts the tiles that a block has begun. Gives the newest one's slot in a ring of one or two.
struct TileTurn {
  u32 count = 0;

  FA2_DEVICE int place(int places) const { return static_cast<int>(count) & (places - 1); }
  FA2_DEVICE u32 parity(int places) const { return count >> (places - 1) & 1; }
};

/// Whether warps copy rows of K and V one by one: TMA cannot find rows of small pages, nor widen keys of 8 bits.
template <class Config>
constexpr bool copies_rows = gathers_keys<Config> || are_bytes<Config>;

/// Warps that fill the ring. A single warp issues TMA loads.
template <class Config>
constexpr int loading_warps = copies_rows<Config> ? 4 : 1;

/// Initialises the block's mbarriers. On return all threads may use them.
template <class Config>
FA2_DEVICE void start_pipeline(const SharedLayoutSm90<Config>& shared) {
  // Warps that share rows all read the ring. Only one of them reads queries.
  constexpr int kConsumerWarps = Config::warps * Config::column_warps, kLoadingWarps = loading_warps<Config>;
  if (ptx::thread_index() == 0) {
    FA2_UNROLL
    for (int slot = 0; slot < Config::stages; ++slot) {
      ptx::mbarrier_init(shared.slot_full(slot), copies_rows<Config> ? 32 * kLoadingWarps : 1);
      ptx::mbarrier_init(shared.slot_empty(slot), kConsumerWarps);
    }
    FA2_UNROLL
    for (int buffer = 0; buffer < Config::q_buffers; ++buffer) {
      ptx::mbarrier_init(shared.queries_full(buffer), 1);
      ptx::mbarrier_init(shared.queries_empty(buffer),
                         shared.stages_output_in_ring ? kConsumerWarps : Config::warps / 4);
    }
    FA2_UNROLL
    for (int turn = 0; turn < 2; ++turn) {
      ptx::mbarrier_init(shared.tile_full(turn), 1);
      ptx::mbarrier_init(shared.tile_empty(turn), kConsumerWarps + kLoadingWarps - 1);
    }
    if constexpr (Config::varlen) ptx::mbarrier_init(shared.edge_full(), 1);
    FA2_UNROLL
    for (int slot = 0; slot < SharedLayoutSm90<Config>::staged_slots; ++slot) {
      ptx::mbarrier_init(shared.staged_full(slot), 1);
      ptx::mbarrier_init(shared.staged_empty(slot), kConsumerWarps);
    }
    ptx::fence_mbarrier_init();
  }
  ptx::bar_sync();
}

/// One consumer warpgroup's view of the ring. Key and value tiles alternate in the producer's order.
template <class Config>
struct KeyValueReader {
  SharedLayoutSm90<Config> shared;
  PipelineState<Config::stages> next;

  /// Returns the next tile's slot without waiting for its load.
  FA2_DEVICE PipelineState<Config::stages> take() {
    const PipelineState<Config::stages> taken = next;
    next.advance();
    return taken;
  }
  FA2_DEVICE void consumer_wait(PipelineState<Config::stages> at) const {
    ptx::mbarrier_wait(shared.slot_full(at.index), at.phase);
    if constexpr (copies_rows<Config>) ptx::fence_proxy_async_shared();
  }

  /// Skips a tile that this warpgroup does not need.
  FA2_DEVICE void skip(PipelineState<Config::stages> at) const {
    consumer_wait(at);  // an early release would count for the slot's previous tile
    consumer_release(at);
  }

  /// Releases the slot for this warp. Every consumer warp must call it.
  FA2_DEVICE void consumer_release(PipelineState<Config::stages> at) const {
    if (ptx::elect_one()) ptx::mbarrier_arrive(shared.slot_empty(at.index));
  }
};

}  // namespace fa2
