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
  using ScoreState = PipelineState<Layout::score_places>;
  static constexpr int k_steps = Config::tile_n / 16;

  const BackwardParams& params;
  const Layout& shared;
  const KeyWork<Config>& work;
  int warpgroup;
  int warp;       ///< of its four
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
      issue_dq(at.last_place);
      ptx::wgmma_wait_group<0>();
      hold(dq);
      add_dq(at.last_tile);
    }
  }

 private:
  struct Progress {
    QueryStep step;
    State state;
    ScoreState place;
    int count = 0;  ///< of the steps before
    // Of the step before, whose dQ is not yet computed.
    ScoreState last_place;
    int last_tile = 0;  ///< of queries
  };

  template <bool kFirst>
  FA2_DEVICE void run_step(const WarpgroupOrder<Config>& order, Progress& at) {
    constexpr bool finishes_dq = Config::sums_dq && !kFirst;
    order.wait();
    issue_scores(at.state);
    issue_score_gradients(at.state);
    order.arrive();
    to_operands(at.step, at.state);
    if constexpr (Config::sums_dq) publish_score_gradients(at.place);
    order.wait();
    issue_dv(at.state);
    if constexpr (finishes_dq) issue_dq(at.last_place);
    issue_dk(at.state);
    order.arrive();
    ptx::wgmma_wait_group<1>();
    hold(dv);
    hold(probabilities);
    release(shared.d_output_empty(at.state.index));
    if constexpr (finishes_dq) {
      hold(dq);
      release(shared.scores_empty(at.last_place.index));
      add_dq(at.last_tile);
    }
    ptx::wgmma_wait_group<0>();
    hold(dk);
    hold(score_gradients);
    release(shared.queries_empty(at.state.index));
    at.last_place = at.place;
    at.last_tile = tile_of(at.step);
    at.step.advance(work);
    at.state.advance();
    at.place.advance();
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
  FA2_DEVICE void publish_score_gradients(const ScoreState& at) {
    ptx::mbarrier_wait(shared.scores_empty(at.index), at.phase ^ 1);
    const typename Layout::ScoreTile tile = shared.scores(at.index, warpgroup);
    FA2_UNROLL
    for (int k = 0; k < k_steps; ++k) {
      ptx::stmatrix_x4_trans(tile.template block_address<BlockOrder::across>(16 * k, warp * 16),
                             score_gradients[k].pair[0]);
    }
    ptx::fence_proxy_async_shared();
    ptx::bar_warp_sync();
    release(shared.scores_full(at.index));
  }

  /// dQ = dS K over all keys of the block, of this warpgroup's share.
  FA2_DEVICE void issue_dq(const ScoreState& at) {
    ptx::mbarrier_wait(shared.scores_full(at.index), at.phase);
    ptx::wgmma_fence();
    FA2_UNROLL
    for (int w = 0; w < Layout::warpgroups; ++w) {
      const typename Layout::ScoreTile scores_of = shared.scores(at.index, w);
      if constexpr (Sums::transposed) {
        wgmma_tt<Element>(dq, shared.keys(w), 64 * warpgroup, scores_of, w > 0);
      } else {
        wgmma_nn<Element>(dq, scores_of, 64 * warpgroup, shared.keys(w), w > 0);
      }
    }
    ptx::wgmma_commit_group();
  }

  /// To the sums of a tile of queries.
  FA2_DEVICE void add_dq(int tile) {
    if (Sums::transposed && 64 * warpgroup + warp * 16 >= Layout::padded_dim) return;
    float* const to = Sums::address(params, tile, warpgroup);
    for_each_four(
        dq, [&](const float(&value)[4], int j) { ptx::red_add_global_v4_f32(to + j * Sums::stride, value); });
  }

  FA2_DEVICE int tile_of(const QueryStep& step) const {
    const int head = work.shape().q_entry * params.attention.heads_q + step.head;
    return head * Sums::tiles(params.statistic_rows) + step.n;
  }

  /// By every warp.
  FA2_DEVICE static void release(SharedAddress mbarrier) {
    if (ptx::elect_one()) ptx::mbarrier_arrive(mbarrier);
  }
};

}  // namespace fa2
