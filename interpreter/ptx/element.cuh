// Exact conversions between floats and the bits of float16 and bfloat16; rounding is to nearest even.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

inline u32 bits_of_float(float x) {
  u32 bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits;
}
inline float float_of_bits(u32 bits) {
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}

template <class Element>
float value_of(u16 bits);

template <>
inline float value_of<BFloat16>(u16 bits) {
  return float_of_bits(static_cast<u32>(bits) << 16);
}

template <>
inline float value_of<Half>(u16 bits) {
  const u32 sign = static_cast<u32>(bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return float_of_bits(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  // Multiplying by a power of two changes half's exponent bias to float's, for subnormals too.
  const float scaled = float_of_bits(magnitude << 13) * float_of_bits((127u + 112u) << 23);
  return float_of_bits(sign | bits_of_float(scaled));
}

template <class Element>
u16 rounded(float x);

template <>
inline u16 rounded<BFloat16>(float x) {
  const u32 bits = bits_of_float(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;  // the only NaN that cvt produces
  return static_cast<u16>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

template <>
inline u16 rounded<Half>(float x) {
  const u32 bits = bits_of_float(x), magnitude = bits & 0x7fffffffu;
  const u16 sign = static_cast<u16>(bits >> 16 & 0x8000u);
  if (magnitude > 0x7f800000u) return 0x7fff;
  if (magnitude >= 0x477ff000u) return static_cast<u16>(sign | 0x7c00u);  // 65520 and more round to infinity
  if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 leaves multiples of 2^-24 in the low bits
    return static_cast<u16>(sign | (bits_of_float(float_of_bits(magnitude) + 0.5f) - 0x3f000000u));
  }
  return static_cast<u16>(sign | ((magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13));
}

}  // namespace fa2::ptx
