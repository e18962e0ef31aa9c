// e4m3fn, an 8-bit float with 4 bits of exponent and 3 of mantissa, in registers: widened to 16 bits, which is exact, and
// rounded from float32.
#pragma once

#include "ptx/e4m3.cuh"
#include "ptx/math.cuh"

namespace fa2 {

/// Four elements in 16 bits: those of bytes 0 and 2, and those of bytes 1 and 3.
template <class Element>
struct Widened {
  u32 even;
  u32 odd;
};

/// How a code's exponent and mantissa lie in 16 bits: `shift` bits below the sign, as a number that `factor` scales to
/// its value.
template <class Element>
struct E4m3Place;
template <>
struct E4m3Place<Half> {
  static constexpr int shift = 1;
  static constexpr u32 factor = 0x5c005c00u;  ///< 2^8
};
template <>
struct E4m3Place<BFloat16> {
  static constexpr int shift = 4;
  static constexpr u32 factor = 0x7b807b80u;  ///< 2^120
};

/// Widens the upper byte of each half. `nan`: ones in each half that is NaN, else 0.
template <class Element>
FA2_DEVICE u32 widen_upper_bytes(u32 bytes, u32 nan) {
  using Place = E4m3Place<Element>;
  const u32 magnitude = (bytes & 0x7f007f00u) >> Place::shift;
  return ptx::mul_rn_x2<Element>(magnitude | (bytes & 0x80008000u) | nan, Place::factor);
}

/// Returns four bytes, of which each has a sign where that of `bytes` is NaN.
FA2_DEVICE u32 nan_signs(u32 bytes) {
  return (bytes & 0x7f7f7f7fu) + 0x01010101u;
}

/// Widens four bytes without an instruction for e4m3.
template <class Element>
FA2_DEVICE Widened<Element> widen_by_bits(u32 bytes) {
  const u32 nan = nan_signs(bytes);
  return {widen_upper_bytes<Element>(bytes << 8, ptx::prmt(nan, 0, 0xaa88)),
          widen_upper_bytes<Element>(bytes, ptx::prmt(nan, 0, 0xbb99))};
}

/// Widens four bytes to float16 in their order. kConverts: whether the GPU converts e4m3.
template <bool kConverts>
FA2_DEVICE ptx::PairOfPairs widen_to_half(u32 bytes) {
  if constexpr (kConverts) return ptx::cvt_f16_e4m3_x4(bytes);
  const u32 nan = nan_signs(bytes);
  return {widen_upper_bytes<Half>(ptx::prmt(bytes, 0, 0x1100), ptx::prmt(nan, 0, 0x9988)),
          widen_upper_bytes<Half>(ptx::prmt(bytes, 0, 0x3322), ptx::prmt(nan, 0, 0xbbaa))};
}

/// Rounds two float16 to bfloat16.
FA2_DEVICE u32 bfloat16_of_half(u32 pair) {
  const ptx::Pair floats = ptx::cvt_f32_x2<Half>(pair);
  return ptx::cvt_rn_x2<BFloat16>(floats.low, floats.high);
}

/// Widens four bytes by instructions for e4m3.
FA2_DEVICE Widened<Half> widen_by_conversion(u32 bytes) {
  const ptx::PairOfPairs pairs = ptx::cvt_f16_e4m3_x4(ptx::prmt(bytes, 0, 0x3120));
  return {pairs.low, pairs.high};
}

/// Widens four bytes. kConverts: whether the GPU converts e4m3 to float16.
template <class Element, bool kConverts>
FA2_DEVICE Widened<Element> widen(u32 bytes) {
  return widen_by_bits<Element>(bytes);
}
template <>
FA2_DEVICE Widened<Half> widen<Half, true>(u32 bytes) {
  return widen_by_conversion(bytes);
}
template <>
FA2_DEVICE Widened<BFloat16> widen<BFloat16, true>(u32 bytes) {
  const Widened<Half> halves = widen_by_conversion(bytes);
  return {bfloat16_of_half(halves.even), bfloat16_of_half(halves.odd)};
}

/// Widens four bytes in their order, times a factor, rounded to bfloat16. The GPU must convert e4m3.
FA2_DEVICE ptx::PairOfPairs widen_times(u32 bytes, float factor) {
  const ptx::PairOfPairs halves = ptx::cvt_f16_e4m3_x4(bytes);
  const ptx::Pair low = ptx::cvt_f32_x2<Half>(halves.low), high = ptx::cvt_f32_x2<Half>(halves.high);
  return {ptx::cvt_rn_x2<BFloat16>(factor * low.low, factor * low.high),
          ptx::cvt_rn_x2<BFloat16>(factor * high.low, factor * high.high)};
}

/// Widens four bytes in their order; exact. The GPU must convert e4m3.
template <class Element>
FA2_DEVICE ptx::PairOfPairs widen_in_order(u32 bytes) {
  return widen_times(bytes, 1.0f);
}
template <>
FA2_DEVICE ptx::PairOfPairs widen_in_order<Half>(u32 bytes) {
  return widen_to_half<true>(bytes);
}

/// Returns the code of x, as cvt_rn_e4m3_x4() does, without an instruction for e4m3.
FA2_DEVICE u32 e4m3_by_bits(float x) {
  const u32 bits = ptx::bits_of(x), size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return 0x7fu;  // NaN
  // 20 bits of mantissa go, and the exponent's bias falls from 127 to 7.
  const u32 normal = (size - (120u << 23) + 0x7ffffu + (size >> 20 & 1u)) >> 20;
  // Below 2^-6 codes are multiples of 2^-9, the distance of floats from 2^14 on.
  const u32 subnormal = ptx::bits_of(ptx::magnitude(x) + 16384.0f) - 0x46800000u;
  return (bits >> 24 & 0x80u) | (size < 0x3c800000u ? subnormal : ptx::min_u32(normal, 0x7eu));
}

/// Rounds four floats to e4m3, `a` in the lowest byte, as cvt_rn_e4m3_x4() does. kConverts: whether the GPU converts them.
template <bool kConverts>
FA2_DEVICE u32 narrow(float a, float b, float c, float d) {
  if constexpr (kConverts) return ptx::cvt_rn_e4m3_x4(a, b, c, d);
  return e4m3_by_bits(a) | e4m3_by_bits(b) << 8 | e4m3_by_bits(c) << 16 | e4m3_by_bits(d) << 24;
}

}  // namespace fa2
