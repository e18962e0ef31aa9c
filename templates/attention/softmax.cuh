// Online softmax (FlashAttention-2, Algorithm 1, lines 9-10 and 12-13).
#pragma once

#include "ptx/barrier.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

/// Running maximum and sum of the rows of one warp: 16 kM rows, each spread over the four lanes of a quad.
/// kRescaleThreshold: what is subtracted may lag behind the true maximum by this many powers of two before
/// the output is rescaled. Any value gives the same result up to rounding; 0 rescales at every rise.
template <int kM, int kRescaleThreshold>
struct OnlineSoftmax {
  float scale_log2;         ///< exponent of a score: score * scale_log2, base 2
  float exponent[kM][2];    ///< that is subtracted; of rows fragment_row() and + 8; -inf before the first key
  float sum[kM][2];         ///< this lane's share of the row's sum
  float correction[kM][2];  ///< factor of the output, where the last step asked for one

  FA2_DEVICE void start(float scale) {
    scale_log2 = scale;
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      FA2_UNROLL
      for (int half = 0; half < 2; ++half) {
        exponent[m][half] = -ptx::infinity();
        sum[m][half] = 0.0f;
      }
    }
  }

  /// scores becomes exp(scores - maximum), unnormalised. Whether the output has to be rescaled, the same
  /// answer in every lane of the warp.
  template <int kN>
  FA2_DEVICE bool step(AccumulatorTile<kM, kN>& scores) {
    const bool rises = raise_exponent(scores);
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      FA2_UNROLL
      for (int half = 0; half < 2; ++half) sum[m][half] += exponentiate(scores, m, half);
    }
    return rises;
  }

  /// The same without looking for a maximum: what was subtracted before is subtracted again, and the row sums
  /// tell whether that was too little. They are exact powers of two then that correct it. False, with scores
  /// lost, if a score rose beyond any power of two; `rises` is set otherwise. No row may be without a key
  /// yet.
  template <int kN>
  FA2_DEVICE bool speculate(AccumulatorTile<kM, kN>& scores, bool& rises) {
    constexpr float kHigh = 8192.0f;  // far from the largest half, and a correction away from it
    float partial[kM][2];
    bool high = false, lost = false;
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      FA2_UNROLL
      for (int half = 0; half < 2; ++half) {
        partial[m][half] = exponentiate(scores, m, half);
        high |= !(partial[m][half] < kHigh);
        lost |= !(partial[m][half] < 0x1p120f);
      }
    }
    rises = ptx::vote_any(high);
    if (rises) {
      if (ptx::vote_any(lost)) return false;
      FA2_UNROLL
      for (int m = 0; m < kM; ++m) {
        FA2_UNROLL
        for (int half = 0; half < 2; ++half) {
          const float largest = quad_maximum(partial[m][half]);
          const float power = largest < kHigh ? 1.0f : ptx::power_of_two_below(largest);
          exponent[m][half] += ptx::lg2_approx(power);
          correction[m][half] = ptx::rcp_rn(power);
          sum[m][half] *= correction[m][half];
          partial[m][half] *= correction[m][half];
          scale_row(scores, m, half, correction[m][half]);
        }
      }
    }
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      FA2_UNROLL
      for (int half = 0; half < 2; ++half) sum[m][half] += partial[m][half];
    }
    return true;
  }

  /// Whether a row of the warp has seen no key yet; the same answer in every lane.
  FA2_DEVICE bool is_new() const {
    bool any = false;
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      FA2_UNROLL
      for (int half = 0; half < 2; ++half) any |= exponent[m][half] == -ptx::infinity();
    }
    return ptx::vote_any(any);
  }

  /// Brings the output to what is subtracted now.
  template <int kN>
  FA2_DEVICE void rescale(AccumulatorTile<kM, kN>& output) const {
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      FA2_UNROLL
      for (int half = 0; half < 2; ++half) scale_row(output, m, half, correction[m][half]);
    }
  }

  /// Divides the output by the row sums, once for the whole row; rows without any visible key become 0.
  template <int kN>
  FA2_DEVICE void finish(AccumulatorTile<kM, kN>& output) {
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      FA2_UNROLL
      for (int half = 0; half < 2; ++half) {
        float& total = sum[m][half];
        total += ptx::shfl_bfly(total, 1);
        total += ptx::shfl_bfly(total, 2);
        scale_row(output, m, half, total == 0.0f ? 0.0f : ptx::rcp_rn(total));
      }
    }
  }

  /// Natural log of the row's sum of exponentials; after finish().
  FA2_DEVICE float log_sum_exp(int m, int half, float empty_row) const {
    constexpr float kLn2 = 0.693147180559945309f;
    if (sum[m][half] == 0.0f) return empty_row;
    return (exponent[m][half] + ptx::lg2_approx(sum[m][half])) * kLn2;
  }

 private:
  /// For a row that has seen no key yet the exponentials are exp(-inf - 0) = 0 instead of NaN.
  FA2_DEVICE float subtracted(int m, int half) const {
    return exponent[m][half] == -ptx::infinity() ? 0.0f : exponent[m][half];
  }

  /// In place; returns this lane's sum.
  template <int kN>
  FA2_DEVICE float exponentiate(AccumulatorTile<kM, kN>& scores, int m, int half) const {
    const float subtract = -subtracted(m, half);
    float total[2] = {};  // two chains: one would be bound by the latency of add
    FA2_UNROLL
    for (int n = 0; n < kN; ++n) {
      FA2_UNROLL
      for (int i = 0; i < 2; ++i) {
        float& p = scores.value[m][n][2 * half + i];
        p = ptx::ex2_approx(ptx::fma_rn(p, scale_log2, subtract));
        total[i] += p;
      }
    }
    return total[0] + total[1];
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
  FA2_DEVICE static float row_maximum(const AccumulatorTile<kM, kN>& scores, int m, int half) {
    // Two chains here too.
    float even = scores.value[m][0][2 * half], odd = scores.value[m][0][2 * half + 1];
    FA2_UNROLL
    for (int n = 1; n < kN; ++n) {
      even = ptx::max_f32(even, scores.value[m][n][2 * half]);
      odd = ptx::max_f32(odd, scores.value[m][n][2 * half + 1]);
    }
    return quad_maximum(ptx::max_f32(even, odd));
  }

  /// Whether it rose, in any row of the warp; sums are then corrected.
  template <int kN>
  FA2_DEVICE bool raise_exponent(const AccumulatorTile<kM, kN>& scores) {
    float risen[kM][2];
    bool any = false;
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      FA2_UNROLL
      for (int half = 0; half < 2; ++half) {
        risen[m][half] = ptx::max_f32(exponent[m][half], row_maximum(scores, m, half) * scale_log2);
        any |= risen[m][half] - exponent[m][half] > static_cast<float>(kRescaleThreshold);
      }
    }
    // The whole warp decides, so that the branch skips the rescale's instructions and not only its effect.
    if (!ptx::vote_any(any)) return false;
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      FA2_UNROLL
      for (int half = 0; half < 2; ++half) {
        const float old = exponent[m][half];
        exponent[m][half] = risen[m][half];
        correction[m][half] = ptx::ex2_approx(old - subtracted(m, half));
        sum[m][half] *= correction[m][half];
      }
    }
    return true;
  }
};

}  // namespace fa2
