// Key tiles that the two blocks of a cluster share. Each block owns half of the keys, and adds half of dQ's columns
// over all of them. So it needs the other block's dS of every step, and that block's K in its own half of the
// columns: adding dQ in global memory takes longer than all else, and this halves it.
#pragma once

#include "attention/backward/sm90/pipeline.cuh"
#include "ptx/cluster_barrier.cuh"
#include "ptx/cluster_memory.cuh"
#include "ptx/proxy.cuh"

namespace fa2 {

/// Returns the rank of the other block.
FA2_DEVICE u32 other_block() {
  return ptx::block_rank_in_cluster() ^ 1;
}

/// Initialises the mbarriers of the exchange. On return both blocks have done so, and know what the other one did before.
/// `steps`: of the key tile. All threads must call it.
template <class Config>
FA2_DEVICE void start_exchange(const BackwardLayoutSm90<Config>& shared, int steps) {
  using Layout = BackwardLayoutSm90<Config>;
  if (ptx::thread_index() == 0) {
    FA2_UNROLL
    for (int place = 0; place < Layout::score_places; ++place) {
      ptx::mbarrier_init(shared.received_full(place), 1);
      ptx::mbarrier_init(shared.received_empty(place), Config::warps);
      ptx::mbarrier_init(shared.may_send(place), 1);
    }
    ptx::mbarrier_init(shared.received_keys_full(), 1);
    ptx::fence_mbarrier_init();
    if (steps > 0) ptx::mbarrier_arrive_expect_tx(shared.received_keys_full(), Layout::half_key_bytes);
  }
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
}

/// Sends the other block its half of K's columns, and what follows K if it has fewer than 256. One thread must call it,
/// after K and V have arrived and are cleared.
template <class Config>
FA2_DEVICE void send_keys(const BackwardLayoutSm90<Config>& shared) {
  constexpr int kBytes = BackwardLayoutSm90<Config>::half_key_bytes;
  const u32 other = other_block(), half = other * static_cast<u32>(kBytes);
  ptx::bulk_copy_cluster(ptx::mapa(shared.received_keys(0).base, other), shared.keys(0).base + half, kBytes,
                         ptx::mapa(shared.received_keys_full(), other));
}

/// The warp that exchanges dS. It is the last of its block to end, when the other block has used all that came from
/// here.
template <class Config>
struct ScoreExchange {
  using Layout = BackwardLayoutSm90<Config>;
  static constexpr int bytes = Layout::ScoreTile::bytes;

  Layout shared;
  int steps;

  FA2_DEVICE void run() const {
    ScoreState<Config> place;
    for (int step = 0; step < steps + Layout::score_places; ++step) {
      receive(step, place);
      if (step < steps) send(place);
      place.advance();
    }
  }

 private:
  /// Lets the other block send dS of a step when that of the step before in this place is used, and waits until this
  /// block may send.
  FA2_DEVICE void receive(int step, const ScoreState<Config>& place) const {
    ptx::mbarrier_wait(shared.received_empty(place.index), place.phase ^ 1);
    if (ptx::elect_one()) {
      if (step < steps) ptx::mbarrier_arrive_expect_tx(shared.received_full(place.index), bytes);
      ptx::mbarrier_arrive_after_reads(ptx::mapa(shared.may_send(place.index), other_block()));
    }
    ptx::bar_warp_sync();
    ptx::mbarrier_wait_copies(shared.may_send(place.index), place.phase);
    // What was sent from the place has arrived, so it may be overwritten.
    if (step >= Layout::score_places && ptx::elect_one())
      ptx::mbarrier_arrive(shared.scores_empty(place.index));
    ptx::bar_warp_sync();
  }

  FA2_DEVICE void send(const ScoreState<Config>& place) const {
    const u32 other = other_block();
    ptx::mbarrier_wait(shared.scores_full(place.index), place.phase);
    if (ptx::elect_one())
      ptx::bulk_copy_cluster(ptx::mapa(shared.received_scores(place.index).base, other),
                             shared.scores(place.index, 0).base, bytes,
                             ptx::mapa(shared.received_full(place.index), other));
    ptx::bar_warp_sync();
  }
};

}  // namespace fa2
