// dQ that leaves through shared memory: a warp adds what its warpgroup has put there to the accumulator in one bulk
// operation, so that the consumers issue no additions.
#pragma once

#include "attention/backward/sm90/turns.cuh"
#include "ptx/tma.cuh"

namespace fa2 {

/// The warp that adds for one warpgroup.
template <class Config>
struct BulkAdder {
  using Layout = BackwardLayoutSm90<Config>;
  using Sums = QuerySums<Config::tile_n, Layout::padded_dim>;

  const BackwardParams& params;
  const KeyWork<Config>& work;
  Layout shared;
  int warpgroup;

  FA2_DEVICE void run() const {
    const TurnBarriers barriers{warpgroup};
    QueryStep step = QueryStep::first(work);
    for (int i = 0; i < work.steps(); ++i, step.advance(work)) {
      if (Layout::alternates && i % 2 != warpgroup) continue;
      barriers.begin();
      barriers.await_end();
      if (ptx::elect_one()) {
        ptx::bulk_reduce_add_f32(
            Sums::address(params, sum_tile_of(params, work, step), first_m_tile<Config>(warpgroup), 0),
            shared.sums(warpgroup), Layout::sum_bytes);
        ptx::bulk_commit_group();
        ptx::bulk_wait_group_read<0>();
      }
      ptx::bar_warp_sync();
    }
    if (ptx::elect_one()) ptx::bulk_wait_group<0>();
  }
};

}  // namespace fa2
