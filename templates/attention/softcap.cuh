// Scores that a tanh keeps within a cap.
#pragma once

#include "attention/params.cuh"
#include "ptx/barrier.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

/// c tanh(s / c) of scores that are not scaled yet: near 0 by a series, else by two special functions, which take more
/// time than the tensor cores leave.
struct Softcap {
  const SoftcapParams& params;

  FA2_DEVICE float term(float s) const { return ptx::fma_rn(s, s, params.shift); }
  /// The capped score in units of params.factor, of scores that the series is good for.
  FA2_DEVICE float series(float s, float term) const { return s * ptx::fma_rn(term, term, params.constant); }

  template <int kM, int kN>
  FA2_DEVICE void apply(AccumulatorTile<kM, kN>& scores) const {
    if (ptx::vote_any(largest_magnitude(scores) > params.series_end)) {
      for_each_score(scores, [&](float& s) {
        const float e = ptx::ex2_approx(s * params.exponent);
        s = ptx::fma_rn(-2.0f * params.limit, ptx::rcp_approx(e + 1.0f),
                        params.limit);  // tanh x = 1 - 2 / (e^2x + 1)
      });
    } else {
      for_each_score(scores, [&](float& s) { s = params.factor * series(s, term(s)); });
    }
  }

  /// Of gradients with respect to capped scores those with respect to the scores: times 1 - tanh^2.
  template <int kM, int kN>
  FA2_DEVICE void apply_derivative(const AccumulatorTile<kM, kN>& capped,
                                   AccumulatorTile<kM, kN>& gradients) const {
    const float per_limit = ptx::rcp_rn(params.limit);
    for_each_pair(gradients, capped, [&](float& gradient, float s) {
      const float tanh = s * per_limit;
      gradient *= ptx::fma_rn(-tanh, tanh, 1.0f);
    });
  }
};

}  // namespace fa2
