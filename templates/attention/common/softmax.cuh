// Online softmax (FlashAttention-2, Algorithm 1, lines 9-10 and 12-13).
#pragma once

#include "ptx/barrier.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

/// The probability of a key that has the row's maximum: a power of two, which 16 bits hold exactly. That of
/// bfloat16 leaves room to add up a hundred thousand of the largest values, whatever their probabilities.
template <class Element>
struct ProbabilityUnit {
  static constexpr float value = 1.0f, log2 = 0.0f;
};
template <>
struct ProbabilityUnit<BFloat16> {
  static constexpr float value = 0x1p-24f, log2 = -24.0f;
};

/// What a row's sum is to be multiplied by: 2^(score * scale_log2 + log2). In two terms, because differences of large scores
/// are exact where those of their exponents are not.
struct RowExponent {
  float score;
  float log2;
};

/// Maximum and sum of the rows of one warp: 16 kM rows, each spread over the four lanes of a quad.
///
/// What counts as a row's maximum may lag behind the true one, so that the output is not rescaled at every
/// rise. But the sum is taken before the probabilities are rounded to 16 bits, and a key with the maximum is
/// the only one that rounding does not change. Where such a key dominates its row, the lag would show as an
/// error of half a unit in the last place; so the maximum is raised where a key weighs more than twice the
/// lane's keys so far. Below that, errors of rounding average out.
template <int kM, class Element>
struct OnlineSoftmax {
  using Unit = ProbabilityUnit<Element>;

  float scale_log2;  ///< exponent of a score: score * scale_log2, base 2
  /// What brings the maximum to the unit, of rows fragment_row() and + 8; infinite before the first key. If
  /// `near`, a probability is 2^(score * scale_log2 + offset), else 2^((score + offset) * scale_log2) units.
  float offset[kM][2];
  float row_sum[kM][2];     ///< this lane's share of the row's sum
  float correction[kM][2];  ///< factor of the output, where the last step asked for one
  float tolerated[kM][2];   ///< the lane's share of a block's sum up to which none of its keys weighs much
  // The same in every lane of the warp:
  bool near;     ///< every row has seen a key, and no exponent is so large that rounding it shows
  bool settled;  ///< near, and worth guessing that the next block raises no maximum

  FA2_DEVICE void start(float scale) {
    scale_log2 = scale;
    near = settled = false;
    for_each_row([&](int m, int half) {
      offset[m][half] = ptx::infinity();
      row_sum[m][half] = 0.0f;
    });
  }

  /// scores becomes exp(scores - maximum), unnormalised. Whether the output has to be rescaled, the same
  /// answer in every lane of the warp.
  template <int kN>
  FA2_DEVICE bool step(AccumulatorTile<kM, kN>& scores) {
    const bool rises = raise_maximum(scores);
    if (!near) subtract_maximum(scores);
    for_each_row([&](int m, int half) {
      const float add = near ? offset[m][half] : Unit::log2;
      row_sum[m][half] += exponentiate(scores, m, half,
                                       [&](float score, int) { return ptx::fma_rn(score, scale_log2, add); });
    });
    look_ahead();
    return rises;
  }

  /// The same without looking for a maximum, for rows that are settled: the probabilities tell whether it has
  /// risen. False, with scores lost, if one of them rose beyond any float or the exponents were not right;
  /// `rises` is set otherwise. exponents(m, half, offset)(score, column) is that of a probability.
  template <int kN, class Exponents>
  FA2_DEVICE bool speculate(AccumulatorTile<kM, kN>& scores, Exponents exponents, bool& rises) {
    float partial[kM][2];
    bool much = false;
    for_each_row([&](int m, int half) {
      partial[m][half] = exponentiate(scores, m, half, exponents(m, half, offset[m][half]));
      much |= !(partial[m][half] <= tolerated[m][half]);
    });
    rises = false;
    if (ptx::vote_any(much || !exponents.are_right())) {
      if (ptx::vote_any(!exponents.are_right())) return false;
      float largest[kM][2];
      if (has_heavy(scores, largest)) {
        if (!raise_to(largest, scores, partial)) return false;
        rises = true;
      }
      look_ahead();
    }
    for_each_row([&](int m, int half) { row_sum[m][half] += partial[m][half]; });
    return true;
  }

  /// Brings the output to what is subtracted now.
  template <int kN>
  FA2_DEVICE void rescale(AccumulatorTile<kM, kN>& output) const {
    for_each_row([&](int m, int half) { scale_row(output, m, half, correction[m][half]); });
  }

  /// Divides the output by the row sums, once for the whole row; rows without any visible key become 0.
  /// sinks(m, half): what joins the row's scores without a key, base 2; only if Sinks::present.
  template <int kN, class Sinks>
  FA2_DEVICE void normalize(AccumulatorTile<kM, kN>& output, const Sinks& sinks) {
    for_each_row([&](int m, int half) {
      float& total = row_sum[m][half];
      total += ptx::shfl_bfly(total, 1);
      total += ptx::shfl_bfly(total, 2);
      float factor = total == 0.0f ? 0.0f : ptx::rcp_rn(total);
      if constexpr (Sinks::present) factor *= merge(m, half, sinks(m, half));
      scale_row(output, m, half, factor);
    });
    if constexpr (Sinks::present) near = true;  // as merge() leaves the rows
  }

  /// Of a row that has seen no key, whose sum is 0, any.
  FA2_DEVICE RowExponent exponent(int m, int half) const {
    return near ? RowExponent{0.0f, -offset[m][half]} : RowExponent{-offset[m][half], -Unit::log2};
  }

  /// Natural log of the row's sum of exponentials; after normalize().
  FA2_DEVICE float log_sum_exp(int m, int half, float empty_row) const {
    constexpr float kLn2 = 0.693147180559945309f;
    const float log2_sum = ptx::lg2_approx(row_sum[m][half]);
    if (row_sum[m][half] == 0.0f) return empty_row;
    if (near) return (log2_sum - offset[m][half]) * kLn2;
    return ptx::fma_rn(-offset[m][half], scale_log2 * kLn2, (log2_sum - Unit::log2) * kLn2);
  }

 private:
  /// A sink is a partial result without an output, merged as such. Returns the factor of this one's output.
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

  /// In place, 2^exponent(score, column); returns this lane's sum.
  template <int kN, class Exponent>
  FA2_DEVICE static float exponentiate(AccumulatorTile<kM, kN>& scores, int m, int half, Exponent exponent) {
    float total[2] = {};  // two chains: one would be bound by the latency of add
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

  /// Before the multiplication, where rounding a product would show. For a row that has seen no key yet 0:
  /// its exponentials are exp(-inf) = 0 instead of NaN.
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

  FA2_DEVICE static float quad_maximum(float x) {
    x = ptx::max_f32(x, ptx::shfl_bfly(x, 1));
    return ptx::max_f32(x, ptx::shfl_bfly(x, 2));
  }

  template <int kN>
  FA2_DEVICE static float lane_maximum(const AccumulatorTile<kM, kN>& tile, int m, int half) {
    // Two chains here too.
    float even = tile.value[m][0][2 * half], odd = tile.value[m][0][2 * half + 1];
    FA2_UNROLL
    for (int n = 1; n < kN; ++n) {
      even = ptx::max_f32(even, tile.value[m][n][2 * half]);
      odd = ptx::max_f32(odd, tile.value[m][n][2 * half + 1]);
    }
    return ptx::max_f32(even, odd);
  }

  /// log2 of the probability of a score.
  FA2_DEVICE float exponent_of(float score, int m, int half) const {
    const float x = offset[m][half];
    return near ? ptx::fma_rn(score, scale_log2, x) : ptx::fma_rn(score + x, scale_log2, Unit::log2);
  }

  /// The largest probability that need not raise the maximum: far from the largest half.
  FA2_DEVICE static float tolerable(float probability) {
    return ptx::min_f32(ptx::max_f32(probability, Unit::value), 128.0f * Unit::value);
  }

  /// Whether a score weighs so much, in any row of the warp, that maxima were raised. Sums are then
  /// corrected.
  template <int kN>
  FA2_DEVICE bool raise_maximum(const AccumulatorTile<kM, kN>& scores) {
    constexpr float kLargestExponent = 2048.0f;  // its rounding changes a probability by less than a half's
    float highest[kM][2];
    bool heavy = false;
    for_each_row([&](int m, int half) {
      highest[m][half] = lane_maximum(scores, m, half);
      heavy |= exponent_of(highest[m][half], m, half) > ptx::lg2_approx(tolerable(2.0f * row_sum[m][half]));
    });
    // The whole warp decides, so that the branch skips the rescale's instructions and not only its effect.
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

  /// The same with offsets that are scores from now on.
  FA2_DEVICE void raise_far(const float (&highest)[kM][2]) {
    const float unscale = ptx::rcp_rn(scale_log2);
    for_each_row([&](int m, int half) {
      const float before = near ? (offset[m][half] - Unit::log2) * unscale : offset[m][half];
      offset[m][half] = ptx::min_f32(before, -highest[m][half]);
      // The smaller one also where a row has seen no key yet: of inf - inf and 0 the 0.
      const float exponent = ptx::min_f32((offset[m][half] - before) * scale_log2, 0.0f);
      correction[m][half] = ptx::ex2_approx(exponent);
      row_sum[m][half] *= correction[m][half];
    });
    near = false;
  }

  /// The same question of probabilities; the lane's largest ones.
  template <int kN>
  FA2_DEVICE bool has_heavy(const AccumulatorTile<kM, kN>& probabilities, float (&largest)[kM][2]) const {
    bool heavy = false;
    for_each_row([&](int m, int half) {
      largest[m][half] = lane_maximum(probabilities, m, half);
      heavy |= !(largest[m][half] <= tolerable(2.0f * row_sum[m][half]));
    });
    return ptx::vote_any(heavy);
  }

  /// Raises the maxima to these probabilities of a block; false if one of them is beyond any float.
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

  /// What to expect of the next block. A row that hangs on few keys will often find a heavier one, and
  /// looking for the maximum first costs less than raising it afterwards.
  FA2_DEVICE void look_ahead() {
    bool hangs = false;
    for_each_row([&](int m, int half) {
      tolerated[m][half] = tolerable(4.0f * row_sum[m][half]);
      hangs |= row_sum[m][half] < 0.25f * Unit::value;
    });
    settled = near && !ptx::vote_any(hangs);
  }
};

}  // namespace fa2
