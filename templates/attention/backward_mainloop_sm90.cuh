// The backward on wgmma (FlashAttention-2, Algorithm 2): what one consumer warpgroup does for its 64 keys. Rows are keys
// and columns queries: P^T and dS^T are operands as they stand in registers.
#pragma once

#include "attention/backward_pipeline_sm90.cuh"
#include "attention/backward_sums.cuh"
#include "attention/score_gradient.cuh"
#include "attention/warpgroup_order.cuh"
#include "ptx/proxy.cuh"
#include "ptx/stmatrix.cuh"
#include "tile/wgmma_gemm.cuh"

namespace fa2 {

template <class Config>
struct BackwardMainloopSm90 {
  using Element = typename Config::Element;
  using Layout = BackwardLayoutSm90<Config>;
  using Sums = QuerySums<Config::tile_n, Layout::padded_dim>;
  using State = PipelineState<Config::stages>;
  static constexpr int k_steps = Config::tile_n / 16;

  const BackwardParams& params;
  const Layout& shared;
  const KeyWork<Config>& work;
  int warpgroup;
  int first_row;  ///< of this warp, among the keys of the sequence

  AccumulatorTile<1, Config::tile_n / 8> scores;
  AccumulatorTile<1, Config::tile_n / 8> gradients;
  OperandA<1> probabilities[k_steps];
  OperandA<1> score_gradients[k_steps];
  AccumulatorTile<1, Layout::padded_dim / 8> dk;
  AccumulatorTile<1, Layout::padded_dim_v / 8> dv;
  typename Sums::Accumulators dq;

  /// Lines 6 to 19 of Algorithm 2. dQ of a step, for which the warpgroups need each other's dS, is computed in the next
  /// one, and leaves beside its other products.
  FA2_DEVICE void run() {
    const WarpgroupOrder<Config> order{warpgroup};
    const int steps = work.steps();
    dk.clear();
    dv.clear();
    if (steps == 0) return;
    ptx::mbarrier_wait(shared.keys_full(), 0);
    ptx::mbarrier_wait(shared.values_full(), 0);
    order.start();
    if (warpgroup == 1) order.skip();  // half a step behind: its products beside the other's exponentials
    Progress at{QueryStep::first(work)};
    run_step<true>(order, at);
    while (at.count < steps) run_step<false>(order, at);
    if (warpgroup == 0) order.skip();
    if constexpr (Config::sums_dq) {
      issue_dq(at.count - 1);
      ptx::wgmma_wait_group<0>();
      hold(dq);
      finish_dq(at.last_tile, at.count - 1);
    }
  }

 private:
  struct Progress {
    QueryStep step;
    State state;
    int count = 0;      ///< of the steps before
    int last_tile = 0;  ///< of queries, whose dQ is not yet computed
  };

  template <bool kFirst>
  FA2_DEVICE void run_step(const WarpgroupOrder<Config>& order, Progress& at) {
    constexpr bool finishes_dq = Config::sums_dq && !kFirst;
    order.wait();
    issue_scores(at.state);
    issue_score_gradients(at.state);
    order.arrive();
    to_operands(at.step, at.state);
    if constexpr (Config::sums_dq) publish_score_gradients(at.count);
    order.wait();
    issue_dv(at.state);
    if constexpr (finishes_dq) issue_dq(at.count - 1);
    issue_dk(at.state);
    order.arrive();
    ptx::wgmma_wait_group<1>();
    hold(dv);
    hold(probabilities);
    release(shared.d_output_empty(at.state.index));
    if constexpr (finishes_dq) {
      hold(dq);
      finish_dq(at.last_tile, at.count - 1);
    }
    ptx::wgmma_wait_group<0>();
    hold(dk);
    hold(score_gradients);
    release(shared.queries_empty(at.state.index));
    at.last_tile = tile_of(at.step);
    at.step.advance(work);
    at.state.advance();
    ++at.count;
  }

  /// S^T = K Q^T.
  FA2_DEVICE void issue_scores(const State& at) {
    ptx::mbarrier_wait(shared.queries_full(at.index), at.phase);
    ptx::wgmma_fence();
    wgmma_nt<Element>(scores, shared.keys(warpgroup), shared.queries(at.index));
    ptx::wgmma_commit_group();
  }

  /// dP^T = V dO^T.
  FA2_DEVICE void issue_score_gradients(const State& at) {
    ptx::mbarrier_wait(shared.d_output_full(at.index), at.phase);
    ptx::wgmma_fence();
    wgmma_nt<Element>(gradients, shared.values(warpgroup), shared.d_output(at.index));
    ptx::wgmma_commit_group();
  }

  /// dV += P^T dO.
  FA2_DEVICE void issue_dv(const State& at) {
    hold(dv);
    ptx::wgmma_fence();
    wgmma_nn<Element>(dv, probabilities, shared.d_output(at.index));
    ptx::wgmma_commit_group();
  }

  /// dK += dS^T Q.
  FA2_DEVICE void issue_dk(const State& at) {
    hold(dk);
    ptx::wgmma_fence();
    wgmma_nn<Element>(dk, score_gradients, shared.queries(at.index));
    ptx::wgmma_commit_group();
  }

  /// P and dS, rounded, once the products are there; P beside the second of them.
  FA2_DEVICE void to_operands(const QueryStep& step, const State& at) {
    const ColumnStatistics<1, true> statistics{shared.offsets(at.index), shared.deltas(at.index)};
    const ScoreMod<Config> score_mod =
        score_mod_of<Config>(params.attention, work.shape(), {work.at.q_tile, step.head, work.at.batch});
    const auto of = fa2::score_gradients<ScoreTile::keys_by_queries>(score_mod, work.blocks, work.queries,
                                                                     statistics, first_row, step.n);
    if constexpr (of.needs_scores) {
      ptx::wgmma_wait_group<0>();
      hold(scores);
      hold(gradients);
      of.to_probabilities_and_gradients(scores, gradients);
    } else {
      ptx::wgmma_wait_group<1>();
      hold(scores);
      of.to_probabilities(scores);
      ptx::wgmma_wait_group<0>();
      hold(gradients);
      of.to_gradients(scores, gradients);
    }
    FA2_UNROLL
    for (int k = 0; k < k_steps; ++k) {
      probabilities[k] = round_to_operand_a<Element>(scores, k);
      score_gradients[k] = round_to_operand_a<Element>(gradients, k);
    }
    hold(probabilities);  // else they are rounded beside dQ, which has no registers to spare
    hold(score_gradients);
  }

  /// dS, a row a query, to where all warpgroups read it.
  FA2_DEVICE void publish_score_gradients(int step) {
    const int place = step & 1;
    ptx::mbarrier_wait(shared.scores_empty(place), phase_of(step) ^ 1);
    const typename Layout::ScoreTile tile = shared.scores(place, warpgroup);
    FA2_UNROLL
    for (int k = 0; k < k_steps; ++k) {
      ptx::stmatrix_x4_trans(
          tile.template block_address<BlockOrder::across>(16 * k, ptx::warp_index() % 4 * 16),
          score_gradients[k].pair[0]);
    }
    ptx::fence_proxy_async_shared();
    ptx::bar_warp_sync();
    release(shared.scores_full(place));
  }

  /// dQ = dS K over all keys of the block, of this warpgroup's share.
  FA2_DEVICE void issue_dq(int step) {
    const int place = step & 1;
    ptx::mbarrier_wait(shared.scores_full(place), phase_of(step));
    ptx::wgmma_fence();
    FA2_UNROLL
    for (int w = 0; w < Layout::warpgroups; ++w) {
      const typename Layout::ScoreTile scores_of = shared.scores(place, w);
      if constexpr (Sums::transposed) {
        wgmma_tt<Element>(dq, shared.keys(w), 64 * warpgroup, scores_of, w > 0);
      } else {
        wgmma_nn<Element>(dq, scores_of, 64 * warpgroup, shared.keys(w), w > 0);
      }
    }
    ptx::wgmma_commit_group();
  }

  FA2_DEVICE void finish_dq(int tile, int step) {
    release(shared.scores_empty(step & 1));
    if (Sums::transposed && 64 * warpgroup + ptx::warp_index() % 4 * 16 >= Layout::padded_dim) return;
    float* const to = Sums::address(params, tile, warpgroup);
    for_each_four(
        dq, [&](const float(&value)[4], int j) { ptx::red_add_global_v4_f32(to + j * Sums::stride, value); });
  }

  FA2_DEVICE int tile_of(const QueryStep& step) const {
    const int head = work.shape().q_entry * params.attention.heads_q + step.head;
    return head * Sums::tiles(params.statistic_rows) + step.n;
  }

  /// Of the two places for dS.
  FA2_DEVICE static u32 phase_of(int step) { return static_cast<u32>(step) >> 1 & 1; }

  /// By every warp.
  FA2_DEVICE static void release(SharedAddress mbarrier) {
    if (ptx::elect_one()) ptx::mbarrier_arrive(mbarrier);
  }
};

}  // namespace fa2
