// The fused backward kernel dq_dk_dv, on wgmma and TMA, with specialised warps.
//
// Launch: one thread block per key tile and key/value head, or several that share its queries (key_parts.cuh), or
// two that share its keys (exchange.cuh).
// Block: in the first warpgroup one warp loads. Two others order the dQ accumulation if its bits must not vary
// (turns.cuh), or add dQ in bulk (bulk_sums.cuh). Up to three add dS to the gradient of a bias
// (bias_gradient.cuh). One exchanges dS with the other block that shares the tile. The
// other warpgroups keep dK and dV in registers, and add their part of dQ to the dQ accumulator in global memory.
// Consumer warpgroup: owns both gradients of 64 keys (mainloop.cuh) or one gradient of the block's 64 keys
// (split.cuh).
// Shared memory: K and V, the rings of Q and dO, slots for dS, mbarriers (layout.cuh). dK and dV leave
// through K and V, or from registers in float32.
#pragma once

#include "attention/backward/gradient_rows.cuh"
#include "attention/backward/sm90/bias_gradient.cuh"
#include "attention/backward/sm90/bulk_sums.cuh"
#include "attention/backward/sm90/exchange.cuh"
#include "attention/backward/sm90/mainloop.cuh"
#include "attention/backward/sm90/producer.cuh"
#include "attention/backward/sm90/rows.cuh"
#include "attention/backward/sm90/split.cuh"
#include "attention/forward/sm90/epilogue.cuh"
#include "ptx/dependent_launch.cuh"
#include "ptx/register_budget.cuh"

namespace fa2 {

/// Scales and stores a warpgroup's rows of dK and dV: through tiles of shared memory, or float32 from registers.
template <class Config>
struct KeyGradientStore {
  const BackwardParamsSm90& params;
  const KeyWork<Config>& work;
  int first_key;  ///< of the warpgroup
  int warpgroup;
  TensorRows rows;  ///< from first_key on

  /// Returns whether the warpgroup has a key. Then its tiles may be overwritten.
  FA2_DEVICE bool begin() const {
    if constexpr (!Config::float32_dk_dv) await_others<Config>(warpgroup);
    return first_key < work.shape().seqlen_k;
  }
  template <class Tile, int kN>
  FA2_DEVICE void dk(Tile tile, AccumulatorTile<1, kN>& gradient, float scale) const {
    const BackwardParams& to = params.backward;
    store<Config::head_dim>(tile, gradient, scale, params.dk, to.dk, to.dk_strides);
  }
  template <class Tile, int kN>
  FA2_DEVICE void dv(Tile tile, AccumulatorTile<1, kN>& gradient, float scale) const {
    const BackwardParams& to = params.backward;
    store<Config::head_dim_v>(tile, gradient, scale, params.dv, to.dv, to.dv_strides);
  }
  /// Waits until the tiles are stored.
  FA2_DEVICE void finish() const {
    if constexpr (!Config::float32_dk_dv)
      if (ptx::thread_index() % 128 == 0) ptx::bulk_wait_group<0>();
  }

 private:
  template <int kCols, class Tile, int kN>
  FA2_DEVICE void store(Tile tile, AccumulatorTile<1, kN>& gradient, float scale, const TensorMap& map,
                        void* data, const Strides& strides) const {
    if constexpr (Config::float32_dk_dv) {
      const SequenceShape& shape = work.shape();
      store_floats<true>(
          gradient_rows<Config::float32_dk_dv, kCols>(data, strides, shape.k_entry, work.at.head,
                                                      static_cast<i64>(shape.k_begin) + first_key),
          gradient, scale, 16 * (ptx::warp_index() % 4), RowsBefore{shape.seqlen_k - first_key});
    } else {
      for_each_score(gradient, [&](float& value) { value *= scale; });
      stage_output<typename Config::Element>(tile, gradient);
      ptx::fence_proxy_async_shared();
      ptx::bar_sync(own_barrier(warpgroup), 128);
      if (ptx::thread_index() % 128 == 0) tma_store_tile<BackwardShape<Config, kCols>>(map, rows, tile);
    }
  }
};

template <class Config>
FA2_DEVICE void compute_key_gradients(const BackwardParamsSm90& params,
                                      const BackwardLayoutSm90<Config>& shared, const KeyWork<Config>& work,
                                      int warpgroup) {
  const BackwardParams& backward = params.backward;
  const int warp = ptx::warp_index() % 4;
  const int first_key = work.first_key() + (Config::splits_gradients ? 0 : 64 * warpgroup);
  const KeyGradientStore<Config> to{params, work, first_key, warpgroup,
                                    key_rows(backward.attention, work, first_key)};
  const float scale = backward.attention.scale;
  const auto part = [&] { return GradientPart<Config>::of(backward, tile_number<Config>()); };
  const auto is_part = [&] {
    return GradientPart<Config>::is_one_of_several(backward, tile_number<Config>());
  };
  const auto part_row = [&] { return 64 * block_of_tile<Config>() + 16 * warp; };
  const float value_scale = value_gradient_scale<Config>(backward.attention);
  ptx::mbarrier_wait(shared.keys_full(), 0);
  ptx::mbarrier_wait(shared.values_full(), 0);
  if constexpr (Config::varlen) clear_unseen_keys(shared, work, warpgroup);
  if constexpr (Config::cluster_blocks > 1) {
    if (work.steps() > 0 && ptx::thread_index() == 128) send_keys<Config>(shared);
  }
  if constexpr (Config::splits_gradients) {
    SplitBackward<Config> of{backward,
                             work,
                             dropout_of<Config>(backward.attention),
                             first_key + 16 * warp,
                             {backward, shared, warpgroup, warp}};
    if (warpgroup == 0) {
      AccumulatorTile<1, BackwardLayoutSm90<Config>::padded_dim_v / 8> dv;
      of.sum_dv(dv);
      if (is_part()) return part().store(dv, value_scale, part_row(), true);
      if (!to.begin()) return;
      to.dv(shared.values(0), dv, value_scale);
    } else {
      AccumulatorTile<1, BackwardLayoutSm90<Config>::padded_dim / 8> dk;
      of.sum_dk(dk);
      of.await_exchange();
      if (is_part()) return part().store(dk, scale, part_row(), false);
      if (!to.begin()) return;
      to.dk(shared.keys(0), dk, scale);
    }
  } else {
    BackwardMainloopSm90<Config> mainloop{
        backward, work, warpgroup, first_key + 16 * warp, {backward, shared, warpgroup, warp}};
    mainloop.run();
    if (is_part()) {
      const int row = 64 * warpgroup + 16 * warp;
      part().store(mainloop.dv, value_scale, row, true);
      return part().store(mainloop.dk, scale, row, false);
    }
    if (!to.begin()) return;
    to.dv(shared.values(warpgroup), mainloop.dv, value_scale);
    to.dk(shared.keys(warpgroup), mainloop.dk, scale);
  }
  to.finish();
}

template <class Config>
FA2_DEVICE void backward_sm90(const BackwardParamsSm90& params) {
  const BackwardLayoutSm90<Config> shared{ptx::dynamic_shared()};
  start_backward_pipeline<Config>(shared);
  if constexpr (QueryBlocks<Config>::has_map) ptx::wait_for_launches_before();  // one of them makes the map
  const KeyWork<Config> work = key_work_of<Config>(params.backward, tile_number<Config>());
  if (params.backward.parts.value > 1 && block_of_tile<Config>() == 0)
    GradientPart<Config>::of(params.backward, tile_number<Config>())
        .describe(PartSteps::count_of(params.backward, work.tile_steps()), work.part, work.shape(),
                  work.at.head, work.first_key());
  if constexpr (Config::cluster_blocks > 1) start_exchange(shared, work.exists() ? work.steps() : 0);
  if (!work.exists()) return;
  const int warpgroup = ptx::warpgroup_index();
  ptx::launch_dependents();
  // The producer loads K and V first: delta does not write them, and began when the launches before it had ended.
  if (ptx::warp_index() != 0) ptx::wait_for_launches_before();
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Config::producer_registers>();
    const int warp = ptx::warp_index();
    if (warp == 0) BackwardProducer<Config>{params, shared, work}.run();
    if (Config::orders_sums && (warp == 1 || warp == 2))
      TurnKeeper<Config>{params.backward, work, warp - 1}.run();
    if constexpr (Config::bulk_sums) {
      if (warp == 1 || warp == 2) BulkAdder<Config>{params.backward, work, shared, warp - 1}.run();
    }
    if constexpr (BackwardLayoutSm90<Config>::bias_adders > 0) {
      constexpr int kFirst = 4 - BackwardLayoutSm90<Config>::bias_adders;
      if (warp >= kFirst)
        BiasAdder<Config, AttentionParams>{params.backward.attention, work, shared, warp - kFirst}.run();
    }
    if constexpr (Config::cluster_blocks > 1) {
      if (warp == 3) ScoreExchange<Config>{shared, work.steps()}.run();
    }
  } else {
    ptx::setmaxnreg_inc<Config::consumer_registers>();
    compute_key_gradients<Config>(params, shared, work, warpgroup - 1);
  }
}

}  // namespace fa2
