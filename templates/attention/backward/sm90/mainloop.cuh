// Main loop of the fused backward kernel on wgmma (FlashAttention-2, Algorithm 2): one consumer warpgroup and
// its 64 keys. Rows are keys and columns are queries, so P^T and dS^T are operands as they lie in registers.
#pragma once

#include "attention/backward/score_gradient.cuh"
#include "attention/backward/sm90/query_gradient.cuh"
#include "attention/common/warpgroup_order.cuh"
#include "tile/wgmma_gemm.cuh"

namespace fa2 {

template <class Config>
struct BackwardMainloopSm90 {
  using Element = typename Config::Element;
  using Layout = BackwardLayoutSm90<Config>;
  using State = PipelineState<Config::stages>;
  static constexpr int k_steps = Config::tile_n / 16;

  const BackwardParams& params;
  const KeyWork<Config>& work;
  int warpgroup;
  int first_row;  ///< first row of this warp among the sequence's keys
  QueryGradient<Config> dq;

  AccumulatorTile<1, Config::tile_n / 8> scores;
  AccumulatorTile<1, Config::tile_n / 8> gradients;
  OperandA<1> probabilities[k_steps];
  OperandA<1> score_gradients[k_steps];
  AccumulatorTile<1, Layout::padded_dim / 8> dk;
  AccumulatorTile<1, Layout::padded_dim_v / 8> dv;

  /// Runs lines 6 to 19 of Algorithm 2. dQ of an iteration needs the dS of all warpgroups, so it is computed
  /// in the next iteration and stored during its other products.
  FA2_DEVICE void run() {
    dk.clear();
    dv.clear();
    if (work.steps() == 0) return;
    if constexpr (Layout::alternates) return run_in_turns();
    const WarpgroupOrder<Config> order{warpgroup};
    order.start();
    if (warpgroup == 1)
      order.skip();  // half an iteration behind, so that its products overlap the other's
                     // exponentials
    Progress at{QueryStep::first(work), work.steps()};
    run_step<true>(order, at);
    while (at.left > 0) run_step<false>(order, at);
    if (warpgroup == 0) order.skip();
    add_dq(at.place.before(), at.last_tile);
  }

 private:
  struct Progress {
    QueryStep step;
    int left;  ///< iterations
    State state = {};
    ScoreState<Config> place = {};
    int last_tile = 0;  ///< accumulator tile of the previous iteration, whose dQ is not yet computed
  };

  template <bool kFirst>
  FA2_DEVICE void run_step(const WarpgroupOrder<Config>& order, Progress& at) {
    // Computes the descriptors again, so that they take no registers from the scores. With ping-pong it is the
    // other warpgroup's turn.
    if constexpr (Config::pingpong > 0 || Config::score_tiles != 0 || Config::float32_dk_dv)
      dq.shared.base = ptx::renewed(dq.shared.base);
    compute_operands(order, at);
    order.wait();
    issue_dv(at.state);
    if constexpr (!kFirst) dq.issue(at.place.before());
    issue_dk(at.state);
    order.arrive();
    ptx::wgmma_wait_group<1>();
    hold(dv);
    hold(probabilities);
    release(dq.shared.d_output_empty(at.state.index));
    if constexpr (!kFirst) dq.finish(at.place.before(), at.last_tile);
    ptx::wgmma_wait_group<0>();
    hold(dk);
    hold(score_gradients);
    release(dq.shared.queries_empty(at.state.index));
    advance(at);
  }

  /// Like run(), with all products of an iteration in one turn, which also begins the next one: it needs fewer registers,
  /// and has none in flight where it ends. Warpgroup i % 2 computes dQ of iteration i, a turn later.
  FA2_DEVICE void run_in_turns() {
    const WarpgroupOrder<Config> order{warpgroup};
    Progress at{QueryStep::first(work), work.steps()};
    bool owns_dq = warpgroup == 0, owned_dq = false;  // of this iteration, and of the one before
    order.start();
    compute_operands(order, at);
    while (at.left > 1) {
      run_turn(order, at, owned_dq);
      owned_dq = owns_dq, owns_dq = !owns_dq;
    }
    order.wait();
    issue_dv(at.state);
    issue_dk(at.state);
    order.arrive();
    ptx::wgmma_wait_group<0>();
    hold_sums();
    if (owned_dq) add_dq(at.place.before(), at.last_tile);
    if (owns_dq) add_dq(at.place, sum_tile_of(params, work, at.step));
  }

  /// dV, dQ of the iteration before if `adds_dq`, and dK; then S, P and dS of the next iteration.
  FA2_DEVICE void run_turn(const WarpgroupOrder<Config>& order, Progress& at, bool adds_dq) {
    State next = at.state;
    next.advance();
    dq.shared.base = ptx::renewed(dq.shared.base);
    order.wait();
    issue_dv(at.state);
    if (adds_dq) dq.issue(at.place.before());
    issue_dk(at.state);
    issue_scores(next);
    issue_score_gradients(next);
    order.arrive();
    ptx::wgmma_wait_group<2>();
    hold_sums();
    release(dq.shared.d_output_empty(at.state.index));
    release(dq.shared.queries_empty(at.state.index));
    if (adds_dq) dq.finish(at.place.before(), at.last_tile);
    advance(at);
    to_operands(at.step, at.state);
    publish_score_gradients(at.place);
  }

  /// Computes S, P and dS of an iteration, the products in one turn.
  FA2_DEVICE void compute_operands(const WarpgroupOrder<Config>& order, const Progress& at) {
    order.wait();
    issue_scores(at.state);
    issue_score_gradients(at.state);
    order.arrive();
    to_operands(at.step, at.state);
    publish_score_gradients(at.place);
  }

  FA2_DEVICE void advance(Progress& at) const {
    at.last_tile = sum_tile_of(params, work, at.step);
    at.step.advance(work);
    at.state.advance();
    at.place.advance();
    --at.left;
  }

  FA2_DEVICE void hold_sums() {
    hold(dv);
    hold(dk);
    hold(probabilities);
    hold(score_gradients);
  }

  FA2_DEVICE void add_dq(const ScoreState<Config>& place, int tile) {
    dq.issue(place);
    ptx::wgmma_wait_group<0>();
    dq.finish(place, tile);
  }

  /// Issues S^T = K Q^T.
  FA2_DEVICE void issue_scores(const State& at) {
    ptx::mbarrier_wait(dq.shared.queries_full(at.index), at.phase);
    ptx::wgmma_fence();
    wgmma_nt<Element>(scores, dq.shared.keys(warpgroup), dq.shared.queries(at.index));
    ptx::wgmma_commit_group();
  }

  /// Issues dP^T = V dO^T.
  FA2_DEVICE void issue_score_gradients(const State& at) {
    ptx::mbarrier_wait(dq.shared.d_output_full(at.index), at.phase);
    ptx::wgmma_fence();
    wgmma_nt<Element>(gradients, dq.shared.values(warpgroup), dq.shared.d_output(at.index));
    ptx::wgmma_commit_group();
  }

  /// Issues dV += P^T dO.
  FA2_DEVICE void issue_dv(const State& at) {
    hold(dv);
    ptx::wgmma_fence();
    wgmma_nn<Element>(dv, probabilities, dq.shared.d_output(at.index));
    ptx::wgmma_commit_group();
  }

  /// Issues dK += dS^T Q.
  FA2_DEVICE void issue_dk(const State& at) {
    hold(dk);
    ptx::wgmma_fence();
    wgmma_nn<Element>(dk, score_gradients, dq.shared.queries(at.index));
    ptx::wgmma_commit_group();
  }

  /// Waits for the products and computes P and dS, rounded. P overlaps the second product.
  FA2_DEVICE void to_operands(const QueryStep& step, const State& at) {
    const ColumnStatistics<1, PreparedOffsets> statistics{dq.shared.offsets(at.index),
                                                          dq.shared.deltas(at.index)};
    ScoreMod<Config> score_mod = score_mod_of(params, work, step);
    if constexpr (Config::score_tiles != 0)
      score_mod.text.staged = {{ptx::renewed(dq.shared.staged(at.index, warpgroup))},
                               step.n * Config::tile_n,
                               work.first_key() + 64 * warpgroup};
    // With dropout, values are computed again instead of kept, because no registers are left.
    const int row = Config::dropout ? static_cast<int>(ptx::renewed(static_cast<u32>(first_row))) : first_row;
    const Dropout<Config> of_head = dropout_of_step(dropout_of<Config>(params.attention), params, work, step);
    const auto of = fa2::score_gradients<ScoreTile::keys_by_queries>(score_mod, of_head, work.blocks,
                                                                     work.queries, statistics, row, step.n);
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
      of_head.drop_marked(scores);
    }
    FA2_UNROLL
    for (int k = 0; k < k_steps; ++k) {
      probabilities[k] = round_to_operand_a<Element>(scores, k);
      score_gradients[k] = round_to_operand_a<Element>(gradients, k);
    }
    hold(probabilities);  // else the compiler rounds them next to dQ, which has no registers to spare
    hold(score_gradients);
  }

  /// Stores dS, one row per query, where all warpgroups read it.
  FA2_DEVICE void publish_score_gradients(const ScoreState<Config>& at) {
    ptx::mbarrier_wait(dq.shared.scores_empty(at.index), at.phase ^ 1);
    publish_scores(dq.shared.scores(at.index, warpgroup), score_gradients, dq.warp);
    release(dq.shared.scores_full(at.index));
  }
};

}  // namespace fa2
