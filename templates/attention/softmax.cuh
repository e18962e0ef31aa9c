// Online softmax (FlashAttention-2, Algorithm 1, lines 9-10 and 12-13).
#pragma once

#include "ptx/barrier.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

/// Running maximum and sum of the rows of one warp: 16 kM rows, each spread over the four lanes of a quad.
/// kRescaleThreshold: the maximum that is subtracted may lag behind the true one by this many powers of two
/// before the output is rescaled. Any value gives the same result up to rounding; 0 rescales at every rise.
template <int kM, int kRescaleThreshold>
struct OnlineSoftmax {
  float scale_log2;      ///< exponent of a score: score * scale_log2, base 2
  float maximum[kM][2];  ///< raw score that is subtracted; rows fragment_row() and + 8
  float sum[kM][2];      ///< this lane's share of the row's sum

  FA2_DEVICE void start(float scale) {
    scale_log2 = scale;
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      FA2_UNROLL
      for (int half = 0; half < 2; ++half) {
        maximum[m][half] = -ptx::infinity();
        sum[m][half] = 0.0f;
      }
    }
  }

  /// scores becomes exp(scores - maximum), unnormalised; output and sums are brought to the same maximum.
  template <int kN, int kOutN>
  FA2_DEVICE void step(AccumulatorTile<kM, kN>& scores, AccumulatorTile<kM, kOutN>& output) {
    raise_maximum(scores, output);
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      FA2_UNROLL
      for (int half = 0; half < 2; ++half) {
        const float subtract = -exponent_of_maximum(m, half);
        FA2_UNROLL
        for (int n = 0; n < kN; ++n) {
          FA2_UNROLL
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            float& p = scores.value[m][n][i];
            p = ptx::ex2_approx(ptx::fma_rn(p, scale_log2, subtract));
            sum[m][half] += p;
          }
        }
      }
    }
  }

  /// Divides the output by the row sums, once for the whole row; rows without any visible key become 0.
  template <int kOutN>
  FA2_DEVICE void finish(AccumulatorTile<kM, kOutN>& output) {
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
    return (maximum[m][half] * scale_log2 + ptx::lg2_approx(sum[m][half])) * kLn2;
  }

 private:
  /// 0 for a row that has seen no key yet: its exponentials are then exp(-inf) = 0 instead of NaN.
  FA2_DEVICE float exponent_of_maximum(int m, int half) const {
    return maximum[m][half] == -ptx::infinity() ? 0.0f : maximum[m][half] * scale_log2;
  }

  template <int kOutN>
  FA2_DEVICE static void scale_row(AccumulatorTile<kM, kOutN>& output, int m, int half, float factor) {
    FA2_UNROLL
    for (int n = 0; n < kOutN; ++n) {
      output.value[m][n][2 * half] *= factor;
      output.value[m][n][2 * half + 1] *= factor;
    }
  }

  template <int kN>
  FA2_DEVICE static float row_maximum(const AccumulatorTile<kM, kN>& scores, int m, int half) {
    // Two chains: one would be bound by the latency of max.
    float even = scores.value[m][0][2 * half], odd = scores.value[m][0][2 * half + 1];
    FA2_UNROLL
    for (int n = 1; n < kN; ++n) {
      even = ptx::max_f32(even, scores.value[m][n][2 * half]);
      odd = ptx::max_f32(odd, scores.value[m][n][2 * half + 1]);
    }
    float row = ptx::max_f32(even, odd);
    row = ptx::max_f32(row, ptx::shfl_bfly(row, 1));
    return ptx::max_f32(row, ptx::shfl_bfly(row, 2));
  }

  template <int kN, int kOutN>
  FA2_DEVICE void raise_maximum(const AccumulatorTile<kM, kN>& scores, AccumulatorTile<kM, kOutN>& output) {
    float risen[kM][2];
    bool any = false;
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      FA2_UNROLL
      for (int half = 0; half < 2; ++half) {
        risen[m][half] = ptx::max_f32(maximum[m][half], row_maximum(scores, m, half));
        any |= (risen[m][half] - maximum[m][half]) * scale_log2 > static_cast<float>(kRescaleThreshold);
      }
    }
    // The whole warp decides, so that the branch skips the rescale's instructions and not only its effect.
    if (!ptx::vote_any(any)) return;
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      FA2_UNROLL
      for (int half = 0; half < 2; ++half) {
        const float old = maximum[m][half] * scale_log2;
        maximum[m][half] = risen[m][half];
        const float factor = ptx::ex2_approx(old - exponent_of_maximum(m, half));
        sum[m][half] *= factor;
        scale_row(output, m, half, factor);
      }
    }
  }
};

}  // namespace fa2
