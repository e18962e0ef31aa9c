// Gradients of captured tensors: sums of dS, with respect to modified scores, times the derivative of the text with respect to each
// read of the tensor, over all scores. A text is evaluated once per read.
#pragma once

#include "attention/backward/score_gradient.cuh"
#include "attention/backward/sm80/capture_sum.cuh"
#include "attention/backward/sm80/followed_text.cuh"
#include "attention/backward/sm80/layout.cuh"
#include "ptx/barrier.cuh"

namespace fa2 {

/// A lane's sum for one element of a gradient. All lanes of a warp call its functions together.
struct ElementSum {
  CaptureSum gradient;
  i64 element = 0;
  float sum = 0.0f;

  /// Adds to an element. A sum for another one leaves first.
  FA2_DEVICE void add(i64 to, float value) {
    const i64 next = value == 0.0f ? element : to;
    if (ptx::vote_any(next != element)) flush();
    element = next;
    sum += value;
  }

  /// Adds the sums to memory: at once where all are for one element, as of a number per head.
  FA2_DEVICE void flush() {
    const u32 lanes = ptx::vote_ballot(sum != 0.0f);
    if (lanes == 0) return;
    const int leader = 31 - ptx::clz(lanes);
    const int low = ptx::shfl_idx(low_of(element), leader), high = ptx::shfl_idx(high_of(element), leader);
    const bool is_other = low != low_of(element) || high != high_of(element);
    if (ptx::vote_any(is_other && sum != 0.0f)) {
      if (sum != 0.0f) gradient.add(element, sum);
    } else {
      FA2_UNROLL
      for (int distance = 1; distance < 32; distance *= 2) sum += ptx::shfl_bfly(sum, distance);
      if (ptx::lane_index() == leader) gradient.add(element, sum);
    }
    sum = 0.0f;
  }

 private:
  FA2_DEVICE static int low_of(i64 number) { return static_cast<int>(number); }
  FA2_DEVICE static int high_of(i64 number) { return static_cast<int>(number >> 32); }
};

/// In place of dQ in backward_queries(): adds to the gradients that the call wants.
template <class Config>
struct CaptureGradients {
  const ScoreMod<Config>& mod;
  const CaptureGradientParams& params;

  FA2_DEVICE CaptureGradients(const ScoreMod<Config>& score_mod, const CaptureGradientParams& of_call)
      : mod(score_mod), params(of_call) {}

  /// Adds a KV block. `scores`: Q K^T; `gradients`: dP.
  template <class Scores, class Of, class Keys>
  FA2_DEVICE void add(Scores& scores, Scores& gradients, const Of& of, const Keys&) const {
    of.to_gradients_of_modified(scores, gradients);
    i64* sums = params.sums;
    for (int i = 0; i < score::FollowedText::capture_count; ++i) {
      const CaptureParams& capture = mod.text.captures.list[i];
      if (!wants_gradient(capture)) continue;
      ElementSum sum{CaptureSum(capture, sums, params.kind)};
      add_capture(i, scores, gradients, of.first_row, of.n * Config::tile_n, sum);
      sum.flush();
      sums += element_count(capture);
    }
  }

  FA2_DEVICE void store(const BackwardParams&, const SequenceShape&, const TileCoordinates&,
                        typename BackwardLayout<Config>::OwnTile, int) const {}

 private:
  template <int kM, int kN>
  FA2_DEVICE void add_capture(int capture, const AccumulatorTile<kM, kN>& scores,
                              const AccumulatorTile<kM, kN>& gradients, int first_row, int first_col,
                              ElementSum& sum) const {
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      FA2_UNROLL
      for (int n = 0; n < kN; ++n) {
        FA2_UNROLL
        for (int i = 0; i < 4; ++i) {
          const float gradient = gradients.value[m][n][i];
          if (!ptx::vote_any(gradient != 0.0f)) continue;
          const int row = first_row + 16 * m + i / 2 * 8 + fragment_row();
          const int col = first_col + 8 * n + fragment_col() + i % 2;
          add_score(capture, scores.value[m][n][i], gradient, mod.positions().in_row(row)(col), sum);
        }
      }
    }
  }

  /// Adds the part of one score, read by read.
  FA2_DEVICE void add_score(int capture, float score, float gradient, const score::Position& at,
                            ElementSum& sum) const {
    for (int number = 0, reads = 1; ptx::vote_any(number < reads); ++number) {
      score::FollowedRead followed{capture, number};
      const score::FollowedText text{mod.text.captures, followed};
      score::Dual modified = score;
      if constexpr (score::Text::has_bias) modified += text.bias(at);
      if constexpr (score::Text::has_mod) modified = text.mod(modified, at);
      reads = followed.reads;
      const bool is_part = gradient != 0.0f && followed.element >= 0;
      sum.add(followed.element, is_part ? gradient * modified.slope : 0.0f);
    }
  }
};

}  // namespace fa2
