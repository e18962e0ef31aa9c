// Softcap: tanh limits the scores.
#pragma once

#include "attention/common/params.cuh"
#include "ptx/barrier.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

/// Computes c tanh(s / c) for unscaled scores. Near 0 it uses a series, because the two special functions of
/// tanh take longer than the tensor cores leave.
struct Softcap {
  const SoftcapParams& params;

  FA2_DEVICE float term(float s) const { return ptx::fma_rn(s, s, params.shift); }
  /// Returns the capped score in units of params.factor. `s` must lie in the range of the series.
  FA2_DEVICE float series(float s, float term) const { return s * ptx::fma_rn(term, term, params.constant); }

  template <int kM, int kN>
  FA2_DEVICE void apply(AccumulatorTile<kM, kN>& scores) const {
    if (!ptx::vote_any(largest_magnitude(scores) > params.series_end)) {
      for_each_score(scores, [&](float& s) { s = params.factor * series(s, term(s)); });
    } else if (!params.is_large) {
      for_each_score(scores, [&](float& s) { s = from_power(s * params.exponent); });
    } else {
      for_each_score(scores, [&](float& s) { s = near_or_far(s, s * params.exponent); });
    }
  }

  /// Turns gradients with respect to capped scores into those with respect to the scores: times 1 - tanh^2.
  template <int kM, int kN>
  FA2_DEVICE void apply_derivative(const AccumulatorTile<kM, kN>& capped,
                                   AccumulatorTile<kM, kN>& gradients) const {
    const float per_limit = ptx::rcp_rn(params.limit);
    for_each_pair(gradients, capped, [&](float& gradient, float s) {
      const float tanh = s * per_limit;
      gradient *= ptx::fma_rn(-tanh, tanh, 1.0f);
    });
  }

 private:
  /// Returns limit * tanh(x) = limit * (1 - 2 / (2^power + 1)) for power = 2 x log2(e). The error is at most
  /// 6e-7 limit.
  FA2_DEVICE float from_power(float power) const {
    return ptx::fma_rn(-2.0f * params.limit, ptx::rcp_approx(ptx::ex2_approx(power) + 1.0f), params.limit);
  }

  /// Returns the capped score of s before the scale, with a relative error of at most 2.5e-6. `power`: s *
  /// exponent.
  FA2_DEVICE float near_or_far(float s, float power) const {
    constexpr double kUnit = 2.885390081777926815;  // 2 log2(e)
    constexpr float kCubic = static_cast<float>(TanhSeries::kCubic / (kUnit * kUnit)),
                    kQuintic = static_cast<float>(TanhSeries::kQuintic / (kUnit * kUnit * kUnit * kUnit)),
                    kEnd = static_cast<float>(TanhSeries::kEnd * kUnit);
    const float square = power * power, far = from_power(power),
                near = s * ptx::fma_rn(square, ptx::fma_rn(square, kQuintic, kCubic), 1.0f);
    return square <= kEnd * kEnd ? near : far;
  }
};

}  // namespace fa2
