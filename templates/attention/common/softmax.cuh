// Online softmax (FlashAttention-2, Algorithm 1, lines 9-10 and 12-13).
#pragma once

#include "ptx/barrier.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

/// The probability that a key with the row's maximum gets: a power of two, which 16 bits hold exactly. The
/// small unit of bfloat16 lets a hundred thousand keys with the largest value add up without overflow.
template <class Element>
struct ProbabilityUnit {
  static constexpr float value = 1.0f, log2 = 0.0f;
};
template <>
struct ProbabilityUnit<BFloat16> {
  static constexpr float value = 0x1p-24f, log2 = -24.0f;
};

/// The exponent by which a row's sum must be multiplied: 2^(score * scale_log2 + log2). It has two terms,
/// because differences between large scores are exact and those between their exponents are not.
struct RowExponent {
  float score;
  float log2;
};

/// Running maximum and sum for the rows of one warp: 16 kM rows, each spread over the four lanes of a quad.
///
/// The stored maximum may lag behind the true one, so that the output is not rescaled at every rise. But sums
/// are taken before probabilities are rounded to 16 bits, and rounding leaves only the key with the maximum
/// unchanged. If another key dominates its row, the lag shows as an error of half a unit in the last place.
/// So the maximum rises as soon as a key weighs more than twice the lane's keys so far. Below this limit
/// rounding errors average out.
template <int kM, class Element>
struct OnlineSoftmax {
  using Unit = ProbabilityUnit<Element>;
  /// Rounding a larger exponent would change a probability by more than rounding to float16 does.
  static constexpr float kLargestExponent = 2048.0f;

  float scale_log2;  ///< factor of a score in its exponent, base 2
  /// Shifts the exponents of rows fragment_row() and + 8, so that the maximum's probability is one unit.
  /// Infinite before the first key. If `near`, a probability is 2^(score * scale_log2 + offset), else
  /// 2^((score + offset) * scale_log2) units.
  float offset[kM][2];
  float row_sum[kM][2];  ///< this lane's part of the row's sum
  float correction
      [kM][2];  ///< factor of the output; valid if the last step asked for a rescale, and after normalize()
  /// Every row has seen a key, and exponents are so small that rounding them does not show. Equal in all lanes
  /// of the warp.
  bool near;

  FA2_DEVICE void start(float scale) {
    scale_log2 = scale;
    near = false;
    for_each_row([&](int m, int half) {
      offset[m][half] = ptx::infinity();
      row_sum[m][half] = 0.0f;
    });
  }

  /// Replaces scores by unnormalised probabilities, exp(score - maximum). Returns whether the output must be
  /// rescaled, equally in all lanes.
  template <int kN>
  FA2_DEVICE bool step(AccumulatorTile<kM, kN>& scores) {
    const bool rises = raise_maximum(scores);
    if (!near) subtract_maximum(scores);
    for_each_row([&](int m, int half) {
      const float add = near ? offset[m][half] : Unit::log2;
      row_sum[m][half] += exponentiate_row(
          scores, m, half, [&](float score, int) { return ptx::fma_rn(score, scale_log2, add); });
    });
    return rises;
  }

  /// Returns whether rows are near and the next block probably raises no maximum. A row that depends on few keys
  /// often meets a heavier one, and then a search for the maximum costs less than a later rise.
  FA2_DEVICE bool is_settled() const {
    bool hangs = !near;
    for_each_row([&](int m, int half) { hangs |= row_sum[m][half] < 0.25f * Unit::value; });
    return !ptx::vote_any(hangs);
  }

  /// Like step(), for rows that are near, without a branch between the search for the maximum and the
  /// exponentials, so that they overlap. Returns false, with the scores lost and the rows as before, if exponents
  /// became too large; else sets `rises`. The maximum does not lag.
  template <int kN>
  FA2_DEVICE bool search(AccumulatorTile<kM, kN>& scores, bool& rises) {
    float before[kM][2], partial[kM][2];
    bool higher = false, far = false;
    for_each_row([&](int m, int half) {
      before[m][half] = offset[m][half];
      const float highest = quad_maximum(lane_maximum(scores, m, half));
      offset[m][half] = ptx::min_f32(before[m][half], ptx::fma_rn(highest, -scale_log2, Unit::log2));
      correction[m][half] = ptx::ex2_approx(offset[m][half] - before[m][half]);
      higher |= offset[m][half] < before[m][half];
      far |= !(offset[m][half] > -kLargestExponent);
    });
    rises = ptx::vote_any(higher);
    const bool any_far = ptx::vote_any(far);
    for_each_row([&](int m, int half) {
      const float add = offset[m][half];
      partial[m][half] = exponentiate_row(
          scores, m, half, [&](float score, int) { return ptx::fma_rn(score, scale_log2, add); });
    });
    for_each_row([&](int m, int half) {
      // A choice, not a branch: sums behind a branch could not fill the time between exponentials.
      const float sum = ptx::fma_rn(row_sum[m][half], correction[m][half], partial[m][half]);
      row_sum[m][half] = any_far ? row_sum[m][half] : sum;
      offset[m][half] = any_far ? before[m][half] : offset[m][half];
    });
    return !any_far;
  }

  /// Like step(), but without a search for the maximum: the probabilities show whether it has risen. Rows
  /// must be settled. Returns false, with the scores lost, if a probability overflowed or the exponents were
  /// not right; else sets `rises`. exponents(m, half, offset)(score, column) returns a probability's
  /// exponent.
  template <int kN, class Exponents>
  FA2_DEVICE bool speculate(AccumulatorTile<kM, kN>& scores, Exponents exponents, bool& rises) {
    float partial[kM][2];
    bool much = false;
    for_each_row([&](int m, int half) {
      partial[m][half] = exponentiate_row(scores, m, half, exponents(m, half, offset[m][half]));
      much |= !(partial[m][half] <= tolerable(4.0f * row_sum[m][half]));
    });
    rises = false;
    if (ptx::vote_any(much || !exponents.are_right())) {
      if (ptx::vote_any(!exponents.are_right())) return false;
      float largest[kM][2];
      if (has_heavy(scores, largest)) {
        if (!raise_to(largest, scores, partial)) return false;
        rises = true;
      }
    }
    for_each_row([&](int m, int half) { row_sum[m][half] += partial[m][half]; });
    return true;
  }

  /// Multiplies the output by the correction of the last step.
  template <int kN>
  FA2_DEVICE void rescale(AccumulatorTile<kM, kN>& output) const {
    for_each_row([&](int m, int half) { scale_row(output, m, half, correction[m][half]); });
  }

  /// Divides the output by the row sums; rows without a visible key become 0. sinks(m, half) returns a sink's
  /// exponent, base 2, and is used only if Sinks::present.
  template <int kN, class Sinks>
  FA2_DEVICE void normalize(AccumulatorTile<kM, kN>& output, const Sinks& sinks) {
    for_each_row([&](int m, int half) {
      float& total = row_sum[m][half];
      total += ptx::shfl_bfly(total, 1);
      total += ptx::shfl_bfly(total, 2);
      float factor = total == 0.0f ? 0.0f : ptx::rcp_rn(total);
      if constexpr (Sinks::present) factor *= merge(m, half, sinks(m, half));
      correction[m][half] = factor;
      scale_row(output, m, half, factor);
    });
    if constexpr (Sinks::present) near = true;  // as merge() leaves the rows
  }

  /// Returns the exponent of a row's sum. For a row that has seen no key any value serves, because its sum is
  /// 0.
  FA2_DEVICE RowExponent exponent(int m, int half) const {
    return near ? RowExponent{0.0f, -offset[m][half]} : RowExponent{-offset[m][half], -Unit::log2};
  }

  /// Returns the log of the row's sum of exponentials, or `empty_row` without a key. `unit`: the factor of a
  /// logarithm to base 2. normalize() must run first.
  FA2_DEVICE float log_sum_exp(int m, int half, float empty_row, float unit) const {
    const float log2_sum = ptx::lg2_approx(row_sum[m][half]);
    if (row_sum[m][half] == 0.0f) return empty_row;
    if (near) return (log2_sum - offset[m][half]) * unit;
    return ptx::fma_rn(-offset[m][half], scale_log2 * unit, (log2_sum - Unit::log2) * unit);
  }

 private:
  /// Merges a sink into the row as a partial result without an output. Returns the factor of the row's
  /// output.
  FA2_DEVICE float merge(int m, int half, float sink) {
    const float log2_sum = ptx::lg2_approx(row_sum[m][half]), x = offset[m][half];
    const float own = near ? log2_sum - x : ptx::fma_rn(-x, scale_log2, log2_sum - Unit::log2);
    const float larger = ptx::max_f32(own, sink);
    if (larger == -ptx::infinity()) return 0.0f;
    const float both =
        larger + ptx::lg2_approx(ptx::ex2_approx(own - larger) + ptx::ex2_approx(sink - larger));
    row_sum[m][half] = 1.0f;
    offset[m][half] = -both;
    return ptx::ex2_approx(own - both);
  }

  /// Calls f(m, half), unrolled.
  template <class F>
  FA2_DEVICE static void for_each_row(const F& f) {
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      f(m, 0);
      f(m, 1);
    }
  }

  /// Replaces a row's scores by 2^exponent(score, column). Returns this lane's sum.
  template <int kN, class Exponent>
  FA2_DEVICE static float exponentiate_row(AccumulatorTile<kM, kN>& scores, int m, int half,
                                           Exponent exponent) {
    float total[2] = {};  // two partial sums, because one would wait for the latency of every add
    FA2_UNROLL
    for (int n = 0; n < kN; ++n) {
      FA2_UNROLL
      for (int i = 0; i < 2; ++i) {
        float& p = scores.value[m][n][2 * half + i];
        p = ptx::ex2_approx(exponent(p, 8 * n + i));
        total[i] += p;
      }
    }
    return total[0] + total[1];
  }

  /// Adds the offset before the scale, because rounding a large product would show. A row that has seen no
  /// key adds 0, so that its exponentials are exp(-inf) = 0 and not NaN.
  template <int kN>
  FA2_DEVICE void subtract_maximum(AccumulatorTile<kM, kN>& scores) const {
    for_each_row([&](int m, int half) {
      const float add = offset[m][half] == ptx::infinity() ? 0.0f : offset[m][half];
      FA2_UNROLL
      for (int n = 0; n < kN; ++n) {
        scores.value[m][n][2 * half] += add;
        scores.value[m][n][2 * half + 1] += add;
      }
    });
  }

  template <int kN>
  FA2_DEVICE static void scale_row(AccumulatorTile<kM, kN>& tile, int m, int half, float factor) {
    FA2_UNROLL
    for (int n = 0; n < kN; ++n) {
      tile.value[m][n][2 * half] *= factor;
      tile.value[m][n][2 * half + 1] *= factor;
    }
  }

  template <int kN>
  FA2_DEVICE static float lane_maximum(const AccumulatorTile<kM, kN>& tile, int m, int half) {
    // Two partial maxima, because one would wait for the latency of every maximum.
    float even = tile.value[m][0][2 * half], odd = tile.value[m][0][2 * half + 1];
    FA2_UNROLL
    for (int n = 1; n < kN; ++n) {
      even = ptx::max_f32(even, tile.value[m][n][2 * half]);
      odd = ptx::max_f32(odd, tile.value[m][n][2 * half + 1]);
    }
    return ptx::max_f32(even, odd);
  }

  /// Returns log2 of a score's probability.
  FA2_DEVICE float exponent_of(float score, int m, int half) const {
    const float x = offset[m][half];
    return near ? ptx::fma_rn(score, scale_log2, x) : ptx::fma_rn(score + x, scale_log2, Unit::log2);
  }

  /// Returns the largest probability that leaves the maximum as it is, well below the largest float16.
  FA2_DEVICE static float tolerable(float probability) {
    return ptx::min_f32(ptx::max_f32(probability, Unit::value), 128.0f * Unit::value);
  }

  /// Raises the maxima if a score in any row of the warp is heavy, and corrects the sums. Returns whether it
  /// did.
  template <int kN>
  FA2_DEVICE bool raise_maximum(const AccumulatorTile<kM, kN>& scores) {
    float highest[kM][2];
    bool heavy = false;
    for_each_row([&](int m, int half) {
      highest[m][half] = lane_maximum(scores, m, half);
      heavy |= exponent_of(highest[m][half], m, half) > ptx::lg2_approx(tolerable(2.0f * row_sum[m][half]));
    });
    // The whole warp decides, so that the branch skips the instructions of the rescale and not only its
    // effect.
    if (!ptx::vote_any(heavy)) return false;
    float before[kM][2], after[kM][2];
    bool far = false;
    for_each_row([&](int m, int half) {
      highest[m][half] = quad_maximum(highest[m][half]);
      before[m][half] = near ? offset[m][half] : ptx::fma_rn(offset[m][half], scale_log2, Unit::log2);
      after[m][half] = ptx::min_f32(before[m][half], ptx::fma_rn(highest[m][half], -scale_log2, Unit::log2));
      far |= !(after[m][half] < kLargestExponent && after[m][half] > -kLargestExponent);
    });
    if (ptx::vote_any(far)) {
      raise_far(highest);
      return true;
    }
    near = true;
    for_each_row([&](int m, int half) {
      offset[m][half] = after[m][half];
      correction[m][half] = ptx::ex2_approx(after[m][half] - before[m][half]);
      row_sum[m][half] *= correction[m][half];
    });
    return true;
  }

  /// Raises the maxima to `highest`. From now on offsets are scores (near = false).
  FA2_DEVICE void raise_far(const float (&highest)[kM][2]) {
    const float unscale = ptx::rcp_rn(scale_log2);
    for_each_row([&](int m, int half) {
      const float before = near ? (offset[m][half] - Unit::log2) * unscale : offset[m][half];
      offset[m][half] = ptx::min_f32(before, -highest[m][half]);
      // Takes the smaller one also for a row without a key so far: min(NaN, 0) = 0 for NaN = inf - inf.
      const float exponent = ptx::min_f32((offset[m][half] - before) * scale_log2, 0.0f);
      correction[m][half] = ptx::ex2_approx(exponent);
      row_sum[m][half] *= correction[m][half];
    });
    near = false;
  }

  /// Returns whether a probability in any row of the warp is heavy; `largest` receives the lane's largest.
  template <int kN>
  FA2_DEVICE bool has_heavy(const AccumulatorTile<kM, kN>& probabilities, float (&largest)[kM][2]) const {
    bool heavy = false;
    for_each_row([&](int m, int half) {
      largest[m][half] = lane_maximum(probabilities, m, half);
      heavy |= !(largest[m][half] <= tolerable(2.0f * row_sum[m][half]));
    });
    return ptx::vote_any(heavy);
  }

  /// Raises the maxima to this block's largest probabilities. Returns false if one is beyond 2^100.
  template <int kN>
  FA2_DEVICE bool raise_to(float (&largest)[kM][2], AccumulatorTile<kM, kN>& probabilities,
                           float (&partial)[kM][2]) {
    bool lost = false;
    for_each_row([&](int m, int half) {
      largest[m][half] = quad_maximum(largest[m][half]);
      lost |= !(largest[m][half] < 0x1p100f);
    });
    if (ptx::vote_any(lost)) return false;
    for_each_row([&](int m, int half) {
      const float units = ptx::max_f32(largest[m][half] * (1.0f / Unit::value), 1.0f);
      offset[m][half] -= ptx::lg2_approx(units);
      correction[m][half] = ptx::rcp_rn(units);
      row_sum[m][half] *= correction[m][half];
      partial[m][half] *= correction[m][half];
      scale_row(probabilities, m, half, correction[m][half]);
    });
    return true;
  }
};

}  // namespace fa2
