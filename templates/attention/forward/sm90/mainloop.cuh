// FlashAttention-2 forward (arXiv 2307.08691, Algorithm 1) on wgmma: what one consumer warpgroup does for its
// 64 query rows.
#pragma once

#include "attention/common/dropout.cuh"
#include "attention/common/key_blocks.cuh"
#include "attention/common/score_mod.cuh"
#include "attention/common/softmax.cuh"
#include "attention/common/warpgroup_order.cuh"
#include "attention/forward/sm90/epilogue.cuh"
#include "attention/forward/sm90/pipeline.cuh"
#include "tile/gemm.cuh"
#include "tile/wgmma_gemm.cuh"

namespace fa2 {

template <class Config>
struct MainloopSm90 {
  using Element = typename Config::Element;
  using Layout = SharedLayoutSm90<Config>;
  using State = PipelineState<Config::stages>;
  using Blocks = KeyBlocks<Config>;
  static constexpr int steps = Config::tile_n / 16;

  const Mask<Config>& mask;
  const ScoreMod<Config>& score_mod;
  const Dropout<Config>& dropout;
  const WarpgroupOrder<Config>& order;
  KeyValueReader<Config>& ring;
  OutputStore<Config>& store;
  typename Layout::QueryTile queries;
  int first_row;  ///< of this warp, in the sequence

  AccumulatorTile<1, Config::tile_n / 8> scores;
  OperandA<1> probabilities[steps];
  AccumulatorTile<1, Layout::padded_dim_v / 8> output;
  OnlineSoftmax<1, Element> softmax;
  bool in_series = true;  ///< no guess has met a score that the softcap's series is not good for

  /// Lines 6 to 14 of Algorithm 1, over the `loaded` blocks of which this warpgroup's rows see `own`. On
  /// return `output` is unnormalised.
  FA2_DEVICE void run(const Blocks& loaded, const Blocks& own) {
    output.clear();
    if (loaded.is_empty()) {
      store.finish_before();
    } else if constexpr (Config::overlap) {
      run_overlapped(loaded, own);
    } else {
      run_in_sequence(loaded, own);
    }
  }

 private:
  /// One product after the other; the probabilities take the registers of the scores.
  FA2_DEVICE void run_in_sequence(const Blocks& loaded, const Blocks& own) {
    bool first = true;
    for (int n = loaded.end - 1; n >= loaded.begin; --n) {
      const State keys = ring.take(), values = ring.take();
      const bool above = n >= own.end && n > loaded.begin, below = own.is_below(n) && !first;
      if (Config::skip_masked && (above || below)) {
        ring.skip(keys);
        ring.skip(values);
        continue;
      }
      ring.consumer_wait(keys);
      issue_scores(keys);
      if (first) store.finish_before();
      first = false;
      ptx::wgmma_wait_group<0>();
      hold(scores);
      if (softmax_of(n, own, keys)) softmax.rescale(output);
      ring.consumer_release(keys);
      drop(n);
      round_probabilities();
      issue_output(values);
      ptx::wgmma_wait_group<0>();
      hold(output);
      ring.consumer_release(values);
    }
  }

  /// The next block's Q K^T and this block's P V are in flight together, beside the next block's softmax.
  FA2_DEVICE void run_overlapped(const Blocks& loaded, const Blocks& own) {
    int n = loaded.end - 1;
    State first = ring.take();
    if constexpr (Config::skip_masked) {
      // The producer's order: the keys of a block come before the values of the block above it.
      for (; n >= own.end && n > loaded.begin; --n) {
        ring.skip(first);
        first = ring.take();
        ring.skip(ring.take());
        order.skip();
      }
    }
    int lowest = loaded.begin;
    if constexpr (Config::skip_masked && Mask<Config>::has_begin) lowest = own.begin < n ? own.begin : n;
    ring.consumer_wait(first);
    issue_scores(first);
    store.finish_before();
    ptx::wgmma_wait_group<0>();
    hold(scores);
    exact_softmax_of(n, own);
    ring.consumer_release(first);
    drop(n);
    round_probabilities();
    while (n-- > lowest) {
      const State keys = ring.take(), values = ring.take();
      ring.consumer_wait(keys);
      order.wait();
      issue_scores(keys);
      issue_output(values);
      order.arrive();
      ptx::wgmma_wait_group<1>();
      hold(scores);
      const bool rises = softmax_of(n, own, keys);
      ring.consumer_release(keys);
      drop(n);
      ptx::wgmma_wait_group<0>();
      hold(output);
      ring.consumer_release(values);
      round_probabilities();
      if (rises) softmax.rescale(output);
    }
    // Of the blocks below, as of those above: keys of a block, then the values of the block above it.
    int unread = 2 * (lowest - loaded.begin);
    if (unread > 0) {
      ring.skip(ring.take());
      --unread;
    }
    const State values = ring.take();
    issue_output(values);
    ptx::wgmma_wait_group<0>();
    hold(output);
    ring.consumer_release(values);
    for (; unread > 0; --unread) {
      ring.skip(ring.take());
      if (unread % 2 == 1) order.skip();
    }
  }

  /// S = Q K^T.
  FA2_DEVICE void issue_scores(State keys) {
    hold(scores);
    ptx::wgmma_fence();
    wgmma_nt<Element>(scores, queries, ring.shared.keys(keys.index));
    ptx::wgmma_commit_group();
  }

  /// The same by this warp alone: the others of its warpgroup have no reason to come along.
  FA2_DEVICE void recompute_scores(State keys) {
    scores.clear();
    FA2_NO_UNROLL
    for (int col = 0; col < Layout::padded_dim; col += 16) {
      gemm_nt_step<Element>(scores, load_operand_a<1>(queries, ptx::warp_index() % 4 * 16, col),
                            ring.shared.keys(keys.index), col);
    }
    ptx::bar_warp_sync();  // one lane releases what all have read
  }

  /// O += P V.
  FA2_DEVICE void issue_output(State values) {
    ring.consumer_wait(values);
    hold(probabilities);
    hold(output);
    ptx::wgmma_fence();
    wgmma_nn<Element>(output, probabilities, ring.shared.values(values.index));
    ptx::wgmma_commit_group();
  }

  /// S becomes P of block `n`, whose keys are still there. Whether the output has to be rescaled.
  FA2_DEVICE bool softmax_of(int n, const Blocks& blocks, State keys) {
    if constexpr (Config::speculative_max) {
      bool rises = false;
      if (may_guess(n, blocks)) {
        if (guess(n, blocks, rises)) return rises;
        // A score rose beyond what a power of two can mend, or is beyond the softcap's series: once more, with the true
        // maximum.
        recompute_scores(keys);
        if constexpr (Config::softcap) in_series = false;
      }
    }
    return exact_softmax_of(n, blocks);
  }

  FA2_DEVICE bool may_guess(int n, const Blocks& blocks) const {
    if constexpr (!ScoreMod<Config>::fused) return !blocks.hides_last_keys(n) && softmax.settled;
    if (blocks.hides_last_keys(n) || blocks.hides_first_keys(n) || !in_series) return false;
    if constexpr (!Config::alibi) return softmax.settled;
    // Rows hang on few keys because of the bias: no reason to expect that others will weigh more.
    return softmax.near && score_mod.alibi.side_of(scores, first_row, n * Config::tile_n) != Side::both;
  }

  FA2_DEVICE bool guess(int n, const Blocks& blocks, bool& rises) {
    const int first_key = n * Config::tile_n;
    if constexpr (!ScoreMod<Config>::fused) {
      score_mod.apply(scores, first_row, first_key);
      blocks.hide_first_keys(mask, scores, first_row, n);
    }
    const Side side = score_mod.alibi.side_of(scores, first_row, first_key);
    return softmax.speculate(
        scores, Exponents<Config>{score_mod, side, first_row, first_key + fragment_col()}, rises);
  }

  /// The same with the true maximum, as a row's first block needs it.
  FA2_DEVICE bool exact_softmax_of(int n, const Blocks& blocks) {
    score_mod.apply(scores, first_row, n * Config::tile_n);
    blocks.hide_keys(mask, scores, first_row, n);
    return softmax.step(scores);
  }

  /// What the rows' sums have in them, and O has not.
  FA2_DEVICE void drop(int n) {
    dropout.template drop<ScoreTile::queries_by_keys>(scores, first_row, n * Config::tile_n);
  }

  FA2_DEVICE void round_probabilities() {
    FA2_UNROLL
    for (int k = 0; k < steps; ++k) probabilities[k] = round_to_operand_a<Element>(scores, k);
  }
};

}  // namespace fa2
