// The sm90 forward kernel, on wgmma and TMA, with specialised warps.
//
// Launch: thread blocks take query tiles as Config::schedule says (tile_schedule.cuh).
// Block: the first warpgroup produces. One of its warps issues TMA loads, or all four gather pages with
// cp.async. Every other warpgroup consumes.
// Consumer warpgroup: computes 64 rows of each tile with wgmma; each warp owns 16 of them in the softmax.
// Shared memory: query buffers; the ring of K and V tiles; mbarriers (shared_layout.cuh). The output passes through a
// query buffer or the ring.
#pragma once

#include "attention/forward/sm90/consumer.cuh"
#include "attention/forward/sm90/producer.cuh"
#include "ptx/dependent_launch.cuh"
#include "ptx/register_budget.cuh"

namespace fa2 {

template <class Config>
FA2_DEVICE void attention_forward_sm90(const AttentionParamsSm90& params) {
  const SharedLayoutSm90<Config> shared{ptx::dynamic_shared()};
  prefetch_tensor_maps<Config>(params);
  start_pipeline<Config>(shared);
  // With few queries, launch latency counts. The launch starts while the previous one ends.
  if constexpr (Config::schedule == kSplitKeys) ptx::launch_dependents();
  const int warpgroup = ptx::warpgroup_index();
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Config::producer_registers>();
    produce<Config>(params, shared, ptx::warp_index());
  } else {
    ptx::setmaxnreg_inc<Config::consumer_registers>();
    consume<Config>(params, shared, warpgroup - 1);
    if (ptx::thread_index() % 128 == 0) ptx::bulk_wait_group<0>();
  }
}

}  // namespace fa2
