// The sm90 forward kernel for head dims beyond 256, on wgmma and TMA.
//
// Launch: thread blocks take query tiles as Config::schedule says (tile_schedule.cuh).
// Block: one warp loads, as in kernel.cuh. Two warpgroups share the 64 rows of a tile (wide_consumer.cuh).
// Shared memory: probabilities; the query tile, in whose place O is put together; the ring of K and V tiles; mbarriers and
// factors (wide_layout.cuh).
#pragma once

#include "attention/forward/sm90/producer.cuh"
#include "attention/forward/sm90/wide_consumer.cuh"
#include "ptx/dependent_launch.cuh"
#include "ptx/register_budget.cuh"

namespace fa2 {

template <class Config>
FA2_DEVICE void attention_forward_wide_sm90(const AttentionParamsSm90& params) {
  using Layout = WideLayoutSm90<Config>;
  using Row = typename Layout::RowConfig;
  const Layout shared{ptx::dynamic_shared()};
  prefetch_tensor_maps<Row>(params);
  start_pipeline<Row>(shared.rows());
  if constexpr (Config::schedule == kSplitKeys) ptx::launch_dependents();
  const int warpgroup = ptx::warpgroup_index();
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Config::producer_registers>();
    return produce<Row>(params, shared.rows(), ptx::warp_index());
  }
  ptx::setmaxnreg_inc<Config::consumer_registers>();
  if constexpr (Config::schedule == kSplitKeys) ptx::wait_for_launches_before();
  if (warpgroup == 1) {
    WideConsumer<Config, true>{params, shared, {shared.rows(), {}}, {shared}}.run();
    if (ptx::thread_index() % 128 == 0) ptx::bulk_wait_group<0>();
  } else {
    WideConsumer<Config, false>{params, shared, {shared.rows(), {}}, {shared}}.run();
  }
}

}  // namespace fa2
