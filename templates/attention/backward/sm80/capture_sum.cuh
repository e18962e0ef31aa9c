// Sums of captures' gradients in global memory: float32 in any order, or integers, which have the same bits in any order.
//
// Integers count units of 2^-24 of the power of two below the greatest magnitude that is added to the element. So three launches make
// them: one finds these magnitudes, where the gradient will be, one adds, and one rounds the sums to float32.
#pragma once

#include "attention/common/params.cuh"
#include "attention/common/score_captures.cuh"
#include "ptx/atomic.cuh"
#include "ptx/capture.cuh"
#include "ptx/math.cuh"
#include "ptx/memory.cuh"

namespace fa2 {

/// Returns whether a call wants a capture's gradient.
FA2_DEVICE bool wants_gradient(const CaptureParams& capture) {
  return capture.data != nullptr && capture.number != 0;
}

FA2_DEVICE i64 element_count(const CaptureParams& capture) {
  i64 count = 1;
  FA2_UNROLL
  for (int i = 0; i < 4; ++i)
    count *= capture.sizes[i] > 0 ? capture.sizes[i] : 1;  // 0: there is no dimension
  return count;
}

/// The unit in which an element of a gradient is summed: parts are less than 2^25 of it, and 2^38 such parts fit in a sum.
struct FixedPointUnit {
  int exponent;  ///< of 2^24 units, as float32 has it

  /// `largest`: of the element's parts; finite.
  FA2_DEVICE explicit FixedPointUnit(float largest)
      : exponent(static_cast<int>(ptx::bits_of(largest) >> 23)) {
    if (exponent < kLeast) exponent = kLeast;
  }

  FA2_DEVICE i64 units_of(float part) const {
    return static_cast<i64>(ptx::round_f32(part * power_of_two(2 * kBias + kBits - exponent)));
  }
  FA2_DEVICE float value_of(i64 units) const {
    return static_cast<float>(units) * power_of_two(exponent - kBits);
  }

 private:
  static constexpr int kBits = 24, kBias = 127;
  static constexpr int kLeast = kBits + 1;  ///< that of the least unit, 2^-126

  FA2_DEVICE static float power_of_two(int biased) { return ptx::float_of(static_cast<u32>(biased) << 23); }
};

/// The gradient of one capture.
struct CaptureSum {
  float* gradient;
  i64* units;  ///< null if sums are float32
  CaptureSums kind;

  FA2_DEVICE CaptureSum(const CaptureParams& capture, i64* sums, CaptureSums of_launch)
      : gradient(reinterpret_cast<float*>(capture.number)), units(sums), kind(of_launch) {}

  FA2_DEVICE void add(i64 element, float part) const {
    float* const to = gradient + element;
    if (kind == CaptureSums::any_order) return ptx::red_add_global_f32(to, part);
    if (kind == CaptureSums::largest) {
      const float magnitude = ptx::abs_f32(part);
      return ptx::red_max_global_f32(to, magnitude < ptx::infinity() ? magnitude : ptx::infinity());
    }
    const float largest = ptx::ld_global_f32(to);
    if (largest < ptx::infinity())
      ptx::red_add_global_i64(units + element, FixedPointUnit(largest).units_of(part));
  }

  /// Replaces an element's largest part by its sum: NaN if that part is infinite or NaN.
  FA2_DEVICE void round(i64 element) const {
    const float largest = ptx::ld_global_f32(gradient + element);
    const float sum = FixedPointUnit(largest).value_of(ptx::ld_capture(units + element));
    ptx::st_global_f32(gradient + element, largest < ptx::infinity() ? sum : ptx::float_of(0x7fffffffu));
  }
};

/// Rounds all sums of a launch. `threads`: of a block. `Captures`: what holds `list`, with `count` of them.
template <int count, class Captures>
FA2_DEVICE void round_capture_sums(const Captures& captures, const CaptureGradientParams& params,
                                   int threads) {
  i64* sums = params.sums;
  for (int i = 0; i < count; ++i) {
    const CaptureParams& capture = captures.list[i];
    if (!wants_gradient(capture)) continue;
    const CaptureSum sum(capture, sums, params.kind);
    const i64 elements = element_count(capture), first = static_cast<i64>(ptx::block_index()) * threads;
    for (i64 e = first + ptx::thread_index(); e < elements; e += static_cast<i64>(params.blocks) * threads)
      sum.round(e);
    sums += elements;
  }
}

}  // namespace fa2
