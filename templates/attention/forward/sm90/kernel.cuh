// Warp specialisation: one warp loads, or four gather, and warpgroups of four warps compute.
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
  // What a launch costs beside reading counts where queries are few: it begins while the one before it ends.
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
