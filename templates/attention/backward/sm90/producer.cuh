// The producer warp of the fused backward kernel. It loads a key tile's K and V, then Q, dO, LSE and delta in
// every iteration.
#pragma once

#include "attention/backward/sm90/pipeline.cuh"
#include "attention/backward/sm90/rows.cuh"
#include "attention/backward/sums.cuh"
#include "ptx/dependent_launch.cuh"

namespace fa2 {

/// The whole warp walks the loop, so that coordinates stay in uniform registers. One lane issues the loads.
template <class Config>
struct BackwardProducer {
  using Layout = BackwardLayoutSm90<Config>;

  const BackwardParamsSm90& params;
  Layout shared;
  const KeyWork<Config>& work;

  FA2_DEVICE void run() const {
    load_keys();
    ptx::wait_for_launches_before();
    PipelineState<Config::stages> state;
    PipelineState<Config::output_stages> output_state;
    QueryStep step = QueryStep::first(work);
    for (int i = 0; i < work.steps(); ++i) {
      load_queries(step, state, output_state);
      step.advance(work);
      state.advance();
      output_state.advance();
    }
  }

 private:
  FA2_DEVICE void load_keys() const {
    if (ptx::elect_one()) {
      const int tiles = loaded_key_tiles(work);
      ptx::mbarrier_arrive_expect_tx(shared.keys_full(), tiles * Layout::KeyTile::bytes);
      ptx::mbarrier_arrive_expect_tx(shared.values_full(), tiles * Layout::ValueTile::bytes);
      FA2_UNROLL
      for (int w = 0; w < Layout::key_tiles; ++w) {
        if (w >= tiles) break;
        const TensorRows rows = seen_key_rows(params.backward.attention, work, work.first_key() + 64 * w);
        tma_load_tile<BackwardShape<Config, Config::head_dim>>(shared.keys(w), params.k, rows,
                                                               shared.keys_full());
        tma_load_tile<BackwardShape<Config, Config::head_dim_v>>(shared.values(w), params.v, rows,
                                                                 shared.values_full());
      }
    }
    ptx::bar_warp_sync();
  }

  FA2_DEVICE void load_queries(const QueryStep& step, const PipelineState<Config::stages>& state,
                               const PipelineState<Config::output_stages>& output_state) const {
    constexpr int kStatistics = 4 * Config::tile_n, kStaged = Layout::key_tiles * Layout::staged_bytes;
    const BackwardParams& backward = params.backward;
    const int slot = state.index, first_row = step.n * Config::tile_n;
    const TensorRows rows = query_rows(backward.attention, work, step.head, first_row);
    const TileCoordinates of_head{step.n, step.head, work.at.batch};
    const float* const delta =
        backward.delta + first_sum_row(backward, work.shape(), of_head, Config::tile_n) + first_row;
    ptx::mbarrier_wait(shared.queries_empty(slot), state.phase ^ 1);
    if (ptx::elect_one()) {
      const SharedAddress full = shared.queries_full(slot);
      ptx::mbarrier_arrive_expect_tx(full, Layout::QueryTile::bytes + kStatistics + kStaged);
      tma_load_tile<BackwardShape<Config, Config::head_dim>>(shared.queries(slot), params.q, rows, full);
      ptx::bulk_load(shared.offsets(slot), delta + backward.statistic_count, kStatistics, full);
      if constexpr (kStaged > 0) {
        FA2_UNROLL
        for (int w = 0; w < Layout::key_tiles; ++w) {
          const StagedScores<Config> tile{{shared.staged(slot, w)}, first_row, work.first_key() + 64 * w};
          tile.load(backward.attention, step.head, work.at.batch, full);
        }
      }
    }
    ptx::bar_warp_sync();
    const int output_slot = output_state.index;
    ptx::mbarrier_wait(shared.d_output_empty(output_slot), output_state.phase ^ 1);
    if (ptx::elect_one()) {
      const SharedAddress full = shared.d_output_full(output_slot);
      ptx::mbarrier_arrive_expect_tx(full, Layout::OutputTile::bytes + kStatistics);
      tma_load_tile<BackwardShape<Config, Config::head_dim_v>>(shared.d_output(output_slot), params.d_o, rows,
                                                               full);
      ptx::bulk_load(shared.deltas(output_slot), delta, kStatistics, full);
    }
    ptx::bar_warp_sync();
  }
};

}  // namespace fa2
