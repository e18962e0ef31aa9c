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
};

}  // namespace fa2
