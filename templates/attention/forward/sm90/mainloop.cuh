// FlashAttention-2 forward (arXiv 2307.08691, Algorithm 1) on wgmma: one consumer warpgroup computes its 64
// query rows.
#pragma once

#include "attention/common/dropout.cuh"
#include "attention/common/key_blocks.cuh"
#include "attention/common/key_value_format.cuh"
#include "attention/common/largest_scores.cuh"
#include "attention/common/score_mod.cuh"
#include "attention/common/softmax.cuh"
#include "attention/common/warpgroup_order.cuh"
#include "attention/forward/sm90/epilogue.cuh"
#include "attention/forward/sm90/pipeline.cuh"
#include "attention/forward/sm90/staged_ring.cuh"
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
  /// Whether warps that do not guess their maxima search them. Kernels that never guess are limited by memory or
  /// by tensor cores. Modified scores keep their warps too long for a search to matter.
  static constexpr bool searches =
      Config::speculative_max && !Config::softcap && !Config::alibi && !ScoreMod<Config>::modifies;

  const Mask<Config>& mask;
  ScoreMod<Config>& score_mod;
  const Dropout<Config>& dropout;
  const Descales<Config>& descales;
  const WarpgroupOrder<Config>& order;
  KeyValueReader<Config>& ring;
  StagedReader<Config>& staged;
  OutputStore<Config>& store;
  typename Layout::QueryTile queries;
  int first_row;  ///< first row of this warp in the sequence

  AccumulatorTile<1, Config::tile_n / 8> scores;
  OperandA<1> probabilities[steps];
  AccumulatorTile<1, Layout::padded_dim_v / 8> output;
  OnlineSoftmax<1, Element> softmax;
  LargestScores<Config, 1> largest;
  bool in_series = true;  ///< no guess has met a score outside the softcap's series

  /// Runs lines 6 to 14 of Algorithm 1 over the `loaded` blocks. This warpgroup's rows see only the blocks
  /// `own`. On return `output` is unnormalised.
  FA2_DEVICE void run(const Blocks& loaded, const Blocks& own) {
    output.clear();
    largest.start();
    if (loaded.is_empty()) {
      store.finish();
      store.release_queries();
    } else if constexpr (Config::overlap) {
      run_overlapped(loaded, own);
    } else {
      run_in_sequence(loaded, own);
    }
  }

 private:
  /// Runs one product after the other. Probabilities replace scores in their registers.
  FA2_DEVICE void run_in_sequence(const Blocks& loaded, const Blocks& own) {
    bool first = true;
    for (int n = loaded.end - 1; n >= loaded.begin; n = loaded.has_map ? loaded.below(n) : n - 1) {
      const State keys = ring.take(), values = ring.take();
      const bool above = n >= own.end && n > loaded.begin, below = own.is_below(n) && !first;
      if (Config::skip_masked && (above || below)) {
        store.finish();
        ring.skip(keys);
        ring.skip(values);
        continue;
      }
      ring.consumer_wait(keys);
      issue_scores(keys);
      store.finish();
      first = false;
      if (softmax_of(n, own, keys, values)) softmax.rescale(output);
      ring.consumer_release(keys);
      round(n);
      issue_output(values);
      ptx::wgmma_wait_group<0>();
      hold(output);
      ring.consumer_release(values);
    }
    store.release_queries();
  }

  /// Keeps the next block's Q K^T and this block's P V in flight together. The next block's softmax overlaps
  /// P V.
  FA2_DEVICE void run_overlapped(const Blocks& loaded, const Blocks& own) {
    int n = loaded.end - 1;
    State first = ring.take();
    if constexpr (Config::skip_masked) {
      // In the producer's order, a block's keys precede the values of the block above it.
      FA2_NO_UNROLL
      for (; n >= own.end && n > loaded.begin; --n) {
        store.finish();
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
    store.finish();
    ptx::wgmma_wait_group<0>();
    hold(scores);
    descales.scale_scores(scores);
    staged.wait(score_mod, first_row, n);
    modify(n, own);
    staged.release(scores);
    ring.consumer_release(first);
    largest.add(scores);
    softmax.step(scores);
    round(n);
    while (loaded.has_map ? (n = loaded.below(n)) >= lowest : n-- > lowest) {
      const State keys = ring.take(), values = ring.take();
      ring.consumer_wait(keys);
      order.wait();
      issue_scores(keys);
      issue_output(values);
      order.arrive();
      const bool rises = softmax_of(n, own, keys, values);
      ring.consumer_release(keys);
      if (rises) softmax.rescale(output);
    }
    store.release_queries();
    // Skips the blocks below in the producer's order: a block's keys, then the values of the block above it.
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
    // The turn passes first: another warpgroup may need it before it releases the slot of the next tile.
    FA2_NO_UNROLL
    for (; unread > 0; --unread) {
      if (unread % 2 == 1) order.skip();
      ring.skip(ring.take());
    }
  }

  /// Issues S = Q K^T.
  FA2_DEVICE void issue_scores(State keys) {
    hold(scores);
    ptx::wgmma_fence();
    wgmma_nt<Element>(scores, queries, ring.shared.keys(keys.index));
    ptx::wgmma_commit_group();
  }

  /// Computes S again with mma.sync: only this warp may need it, and wgmma takes all four warps.
  FA2_DEVICE void recompute_scores(State keys) {
    scores.clear();
    FA2_NO_UNROLL
    for (int col = 0; col < Layout::padded_dim; col += 16) {
      gemm_nt_step<Element>(scores, load_operand_a<1>(queries, ptx::warp_index() % 4 * 16, col),
                            ring.shared.keys(keys.index), col);
    }
    ptx::bar_warp_sync();  // one lane releases the slot for all
    descales.scale_scores(scores);
  }

  /// Waits for V and issues O += P V.
  FA2_DEVICE void issue_output(State values) {
    ring.consumer_wait(values);
    hold(probabilities);
    hold(output);
    ptx::wgmma_fence();
    wgmma_nn<Element>(output, probabilities, ring.shared.values(values.index));
    ptx::wgmma_commit_group();
  }

  /// Turns the scores of block `n`, which are on their way, into probabilities. If products overlap, also
  /// finishes the P V in flight, of `values`, and rounds the probabilities for the next. The block's keys must
  /// still be in their slot. Returns whether the output must be rescaled.
  FA2_DEVICE bool softmax_of(int n, const Blocks& blocks, State keys, State values) {
    // Decisions that do not depend on the scores precede the wait for them, which hides them.
    const bool guesses = Config::speculative_max && may_guess(n, blocks), plain = is_plain(n, blocks);
    ptx::wgmma_wait_group<Config::overlap ? 1 : 0>();
    hold(scores);
    descales.scale_scores(scores);
    staged.wait(score_mod, first_row, n);
    bool rises;
    if constexpr (searches) {
      rises = guess_or_search(n, blocks, keys, guesses, plain);
    } else {
      rises = guess_or_step(n, blocks, keys, guesses);
    }
    staged.release(scores);
    if constexpr (Config::overlap) {
      // No branch may contain a wait: the warpgroup's four warps must execute the same one.
      ptx::wgmma_wait_group<0>();
      hold(output);
      ring.consumer_release(values);
      round(n);
    }
    return rises;
  }

  /// Replaces the scores of block `n` by probabilities. Returns whether the output must be rescaled.
  FA2_DEVICE bool guess_or_step(int n, const Blocks& blocks, State keys, bool guesses) {
    if constexpr (Config::speculative_max) {
      bool rises;
      if (guesses) {
        if (!ScoreMod<Config>::fused) modify(n, blocks);
        largest.add(scores);
        if (guess(n, rises)) return rises;
        start_again(keys);
      }
    }
    modify(n, blocks);
    largest.add(scores);
    return softmax.step(scores);
  }

  /// Like guess_or_step(), but a warp that does not guess its maxima searches them. `plain`: is_plain().
  FA2_DEVICE bool guess_or_search(int n, const Blocks& blocks, State keys, bool guesses, bool plain) {
    bool rises;
    if (!plain) modify(n, blocks);
    largest.add(scores);
    if (guesses || softmax.near) {
      if (guesses ? guess(n, rises) : softmax.search(scores, rises)) return rises;
      start_again(keys);
      modify(n, blocks);
    }
    return softmax.step(scores);
  }

  /// Restores the scores if a score rose too far, or lies outside the softcap's series.
  FA2_DEVICE void start_again(State keys) {
    recompute_scores(keys);
    if constexpr (Config::softcap) in_series = false;
  }

  /// Returns whether modify() would leave the scores of block `n` as they are.
  FA2_DEVICE bool is_plain(int n, const Blocks& blocks) const {
    return !score_mod.changes_scores() && !blocks.hides_last_keys(n) && !blocks.hides_first_keys(n) &&
           !hides_by_text(n, blocks);
  }

  /// Modifies the scores of block `n`, and hides what the mask does not show.
  FA2_DEVICE void modify(int n, const Blocks& blocks) {
    score_mod.apply(scores, first_row, n * Config::tile_n);
    score_mod.hide(scores, first_row, n * Config::tile_n, blocks.shows_all(n));
    blocks.hide_keys(mask, scores, first_row, n);
  }

  /// Returns whether the text of a mask may hide keys of block `n`.
  FA2_DEVICE static bool hides_by_text(int n, const Blocks& blocks) {
    return ScoreMod<Config>::hides && !blocks.shows_all(n);
  }

  FA2_DEVICE bool may_guess(int n, const Blocks& blocks) const {
    if constexpr (!ScoreMod<Config>::fused) return !blocks.hides_last_keys(n) && softmax.is_settled();
    if (blocks.hides_last_keys(n) || blocks.hides_first_keys(n) || hides_by_text(n, blocks) || !in_series)
      return false;
    if constexpr (ScoreMod<Config>::only_adds) return softmax.near;
    if constexpr (!Config::alibi) return softmax.is_settled();
    // ALiBi makes rows depend on few keys, which unsettles them. Still, keys further away rarely weigh more.
    return softmax.near && score_mod.alibi.side_of(scores, first_row, n * Config::tile_n) != Side::both;
  }

  /// Computes probabilities with the old maximum. Returns false, with the scores lost, if that failed; else
  /// sets `rises`.
  FA2_DEVICE bool guess(int n, bool& rises) {
    const int first_key = n * Config::tile_n;
    const Side side = score_mod.alibi.side_of(scores, first_row, first_key);
    return softmax.speculate(
        scores, Exponents<Config>{score_mod, side, first_row, first_key + fragment_col()}, rises);
  }

  /// Rounds the probabilities of block `n`, without those that are dropped. These are dropped for O only: the row
  /// sums already include them.
  FA2_DEVICE void round(int n) {
    dropout.template drop<ScoreTile::queries_by_keys>(scores, first_row, n * Config::tile_n);
    FA2_UNROLL
    for (int k = 0; k < steps; ++k) probabilities[k] = round_to_operand_a<Element>(scores, k);
  }
};

}  // namespace fa2
