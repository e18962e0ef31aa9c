// Conversions of e4m3fn, by the values of its codes.
#pragma once

#include "ptx/element.cuh"

namespace fa2::ptx {

struct PairOfPairs {
  u32 low;
  u32 high;
};

/// Returns the value of a code. It has 4 bits of exponent, 3 of mantissa and no infinities.
inline float value_of_e4m3(u32 code) {
  const u32 exponent = code >> 3 & 15u, mantissa = code & 7u;
  if (exponent == 15 && mantissa == 7) return __builtin_nanf("");
  const float magnitude = exponent == 0 ? static_cast<float>(mantissa) * 0x1p-9f
                                        : float_of_bits((exponent + 120u) << 23 | mantissa << 20);
  return (code & 128u) != 0 ? -magnitude : magnitude;
}

FA2_DEVICE PairOfPairs cvt_f16_e4m3_x4(u32 bytes) {
  u32 half[4];
  for (u32 i = 0; i < 4; ++i) half[i] = rounded<Half>(value_of_e4m3(bytes >> 8 * i & 255u));
  return {half[0] | half[1] << 16, half[2] | half[3] << 16};
}

/// Returns the code of x: the largest one whose midpoint with the code below is not above |x|. Ties go to even codes.
inline u32 e4m3_of(float x) {
  if (x != x) return 0x7fu;
  const float magnitude = __builtin_fabsf(x);
  u32 code = 0;
  for (u32 bit = 64; bit != 0; bit >>= 1) {
    const u32 next = code | bit;
    if (next == 0x7fu) continue;  // NaN
    const float midpoint = 0.5f * (value_of_e4m3(next - 1) + value_of_e4m3(next));
    if (magnitude > midpoint || (magnitude == midpoint && next % 2 == 0)) code = next;
  }
  return code | (bits_of_float(x) >> 24 & 128u);
}

FA2_DEVICE u32 cvt_rn_e4m3_x4(float a, float b, float c, float d) {
  return e4m3_of(a) | e4m3_of(b) << 8 | e4m3_of(c) << 16 | e4m3_of(d) << 24;
}

}  // namespace fa2::ptx
