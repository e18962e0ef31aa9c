// Main loop of the fused backward kernel on wgmma for wide heads. A block has 64 keys; one warpgroup owns
// their dV and the other their dK. P passes from one to the other through shared memory. Two blocks may share
// dQ (exchange.cuh).
#pragma once

#include "attention/backward/score_gradient.cuh"
#include "attention/backward/sm90/query_gradient.cuh"

namespace fa2 {

template <bool kValue>
struct Known {
  static constexpr bool value = kValue;
};

template <class Config>
struct SplitBackward {
  using Element = typename Config::Element;
  using Layout = BackwardLayoutSm90<Config>;
  using State = PipelineState<Config::stages>;
  using OutputState = PipelineState<Config::output_stages>;
  using Scores = AccumulatorTile<1, Config::tile_n / 8>;
  static constexpr int k_steps = Config::tile_n / 16;

  const BackwardParams& params;
  const KeyWork<Config>& work;
  Dropout<Config> dropout;  ///< random numbers of the launch
  int first_row;            ///< first row of this warp among the sequence's keys
  QueryGradient<Config> dq;

  OperandA<1> operand[k_steps];  ///< P or dS
  State state;
  OutputState output_state;
  ScoreState<Config> place;

  /// Computes S = Q K^T, P and dV += P^T dO in every iteration.
  template <int kN>
  FA2_DEVICE void sum_dv(AccumulatorTile<1, kN>& dv) {
    for_each_step(
        dv,
        [&](const QueryStep& step) {
          Scores scores;
          ptx::mbarrier_wait(dq.shared.queries_full(state.index), state.phase);
          ptx::wgmma_fence();
          wgmma_nt<Element>(scores, dq.shared.keys(0), dq.shared.queries(state.index));
          ptx::wgmma_commit_group();
          ptx::wgmma_wait_group<0>();
          hold(scores);
          to_probabilities(scores, step);
          release(dq.shared.queries_empty(state.index));
        },
        [&](AccumulatorTile<1, kN>& sum) {
          ptx::mbarrier_wait(dq.shared.d_output_full(output_state.index), output_state.phase);
          hold(sum);
          ptx::wgmma_fence();
          wgmma_nn<Element>(sum, operand, dq.shared.d_output(output_state.index));
        },
        [&] { release(dq.shared.d_output_empty(output_state.index)); });
  }

  /// Computes dP = dO V^T, dS and dK += dS^T Q in every iteration.
  template <int kN>
  FA2_DEVICE void sum_dk(AccumulatorTile<1, kN>& dk) {
    for_each_step(
        dk,
        [&](const QueryStep& step) {
          Scores gradients;
          ptx::mbarrier_wait(dq.shared.d_output_full(output_state.index), output_state.phase);
          ptx::wgmma_fence();
          wgmma_nt<Element>(gradients, dq.shared.values(0), dq.shared.d_output(output_state.index));
          ptx::wgmma_commit_group();
          ptx::mbarrier_wait(dq.shared.weights_full(place.index), place.phase);
          ptx::wgmma_wait_group<0>();
          hold(gradients);
          to_score_gradients(gradients, step);
          release(dq.shared.d_output_empty(output_state.index));
        },
        [&](AccumulatorTile<1, kN>& sum) {
          ptx::mbarrier_wait(dq.shared.queries_full(state.index), state.phase);
          hold(sum);
          ptx::wgmma_fence();
          wgmma_nn<Element>(sum, operand, dq.shared.queries(state.index));
        },
        [&] { release(dq.shared.queries_empty(state.index)); });
  }

  /// Waits until the other block of the cluster has used all that it was sent; then K's memory may be overwritten.
  FA2_DEVICE void await_exchange() const {
    if constexpr (Layout::blocks > 1) {
      ScoreState<Config> last = place;
      last.advance();  // ScoreExchange::run() goes on for as many steps as there are places
      ptx::mbarrier_wait(dq.shared.scores_empty(last.index), last.phase ^ 1);
    }
  }

 private:
  /// Calls prepare(step), which computes `operand`, issue(sum) and done() for every query block. dQ of one
  /// iteration is computed in the next, while issue() may still wait for what it reads.
  template <int kN, class Prepare, class Issue, class Done>
  FA2_DEVICE void for_each_step(AccumulatorTile<1, kN>& sum, const Prepare& prepare, const Issue& issue,
                                const Done& done) {
    sum.clear();
    QueryStep step = QueryStep::first(work);
    int last_tile = 0;
    const auto run = [&](auto is_first) {
      constexpr bool finishes_dq = !decltype(is_first)::value;
      dq.shared.base = ptx::renewed(dq.shared.base);  // the descriptors of K and V would take too many
                                                      // registers
      prepare(step);
      if constexpr (finishes_dq) dq.issue(place.before());
      issue(sum);
      ptx::wgmma_commit_group();
      if constexpr (finishes_dq) {
        ptx::wgmma_wait_group<1>();
        dq.finish(place.before(), last_tile);
      }
      ptx::wgmma_wait_group<0>();
      hold(sum);
      hold(operand);
      done();
      last_tile = sum_tile_of(params, work, step);
      step.advance(work);
      state.advance();
      output_state.advance();
      place.advance();
    };
    const int steps = work.steps();
    if (steps == 0) return;
    run(Known<true>{});
    if constexpr (Layout::blocks > 1) ptx::mbarrier_wait_copies(dq.shared.received_keys_full(), 0);
    for (int i = 1; i < steps; ++i) run(Known<false>{});
    dq.issue(place.before());
    ptx::wgmma_wait_group<0>();
    dq.finish(place.before(), last_tile);
  }

  FA2_DEVICE auto gradients_of(const QueryStep& step, const ColumnStatistics<1, PreparedOffsets>& statistics,
                               const ScoreMod<Config>& score_mod, const Dropout<Config>& of_head) const {
    return score_gradients<ScoreTile::keys_by_queries>(score_mod, of_head, work.blocks, work.queries,
                                                       statistics, first_row, step.n);
  }
  FA2_DEVICE ColumnStatistics<1, PreparedOffsets> statistics() const {
    return {dq.shared.offsets(state.index), dq.shared.deltas(output_state.index)};
  }

  /// Computes P as `operand`, and the factors of dP - delta for the other warpgroup.
  FA2_DEVICE void to_probabilities(Scores& scores, const QueryStep& step) {
    const ColumnStatistics<1, PreparedOffsets> statistics = this->statistics();
    ScoreMod<Config> score_mod = score_mod_of(params, work, step);
    if constexpr (Config::score_tiles != 0)
      score_mod.text.staged = {
          {ptx::renewed(dq.shared.staged(state.index, 0))}, step.n * Config::tile_n, work.first_key()};
    const Dropout<Config> of_head = dropout_of_step(dropout, params, work, step);
    const auto of = gradients_of(step, statistics, score_mod, of_head);
    ptx::mbarrier_wait(dq.shared.weights_empty(place.index), place.phase ^ 1);
    if constexpr (of.needs_scores) {
      Scores weights;
      of.to_probabilities_and_weights(scores, weights);
      round(weights);
      store_weights();
      of_head.drop_marked(scores);
      round(scores);
    } else {
      of.to_probabilities(scores);
      round(scores);
      store_weights();
      if constexpr (Config::dropout) {
        of_head.drop_marked(scores);
        round(scores);
      }
    }
    ptx::bar_warp_sync();
    release(dq.shared.weights_full(place.index));
  }

  FA2_DEVICE void to_score_gradients(Scores& gradients, const QueryStep& step) {
    const ColumnStatistics<1, PreparedOffsets> statistics = this->statistics();
    const ScoreMod<Config> score_mod = score_mod_of(params, work, step);
    gradients_of(step, statistics, score_mod, dropout_of_step(dropout, params, work, step))
        .to_unweighted_gradients(gradients);
    load_weights();
    FA2_UNROLL
    for (int k = 0; k < k_steps; ++k) {
      FA2_UNROLL
      for (int i = 0; i < 4; ++i) {
        u32& pair = operand[k].pair[0][i];
        ptx::Pair weight = ptx::cvt_f32_x2<Element>(pair);
        if constexpr (Config::dropout) weight = {ptx::magnitude(weight.low), ptx::magnitude(weight.high)};
        const float(&v)[4] = gradients.value[0][2 * k + i / 2];
        pair = ptx::cvt_rn_x2<Element>(v[i % 2 * 2] * weight.low, v[i % 2 * 2 + 1] * weight.high);
      }
    }
    ptx::mbarrier_wait(dq.shared.scores_empty(place.index), place.phase ^ 1);
    publish_scores(dq.shared.scores(place.index, 0), operand, dq.warp);
    release(dq.shared.scores_full(place.index));
  }

  FA2_DEVICE void round(const Scores& scores) {
    FA2_UNROLL
    for (int k = 0; k < k_steps; ++k) operand[k] = round_to_operand_a<Element>(scores, k);
  }

  /// Returns the address of this thread's weights. Threads with the same index in both warpgroups hold the
  /// same elements.
  FA2_DEVICE SharedAddress weights_address(int k) const {
    return dq.shared.weights(place.index) + static_cast<u32>((k * 128 + ptx::thread_index() % 128) * 16);
  }
  FA2_DEVICE void store_weights() const {
    FA2_UNROLL
    for (int k = 0; k < k_steps; ++k) {
      const u32(&v)[4] = operand[k].pair[0];
      ptx::st_shared_v4(weights_address(k), ptx::Vector16{{v[0], v[1], v[2], v[3]}});
    }
  }
  FA2_DEVICE void load_weights() {
    FA2_UNROLL
    for (int k = 0; k < k_steps; ++k) {
      const ptx::Vector16 v = ptx::ld_shared_v4(weights_address(k));
      FA2_UNROLL
      for (int i = 0; i < 4; ++i) operand[k].pair[0][i] = v.word[i];
    }
    ptx::bar_warp_sync();
    release(dq.shared.weights_empty(place.index));
  }
};

}  // namespace fa2
