// Approximate special functions, which flush subnormals, and packed conversions. The approximations are
// rounded correctly here, within the errors that NVIDIA documents.
#pragma once

#include "ptx/element.cuh"

namespace fa2::ptx {

FA2_DEVICE float flushed(float x) {
  return (bits_of_float(x) & 0x7f800000u) == 0 ? float_of_bits(bits_of_float(x) & 0x80000000u) : x;
}

FA2_DEVICE float ex2_approx(float x) {
  return flushed(static_cast<float>(__builtin_exp2(static_cast<double>(flushed(x)))));
}

FA2_DEVICE float lg2_approx(float x) {
  return flushed(static_cast<float>(__builtin_log2(static_cast<double>(flushed(x)))));
}

FA2_DEVICE float rcp_rn(float x) {
  return flushed(1.0f / flushed(x));
}

FA2_DEVICE float div_rn(float x, float y) {
  return x / y;
}

FA2_DEVICE float rcp_approx(float x) {
  return rcp_rn(x);
}

FA2_DEVICE float floor_f32(float x) {
  return __builtin_floorf(x);
}

FA2_DEVICE float ceil_f32(float x) {
  return __builtin_ceilf(x);
}

FA2_DEVICE float round_f32(float x) {
  return __builtin_nearbyintf(x);
}

FA2_DEVICE float trunc_f32(float x) {
  return __builtin_truncf(x);
}

FA2_DEVICE float sqrt_approx(float x) {
  return flushed(__builtin_sqrtf(flushed(x)));
}

FA2_DEVICE float rsqrt_approx(float x) {
  return flushed(1.0f / __builtin_sqrtf(flushed(x)));
}

FA2_DEVICE float sin_approx(float x) {
  return flushed(__builtin_sinf(flushed(x)));
}

FA2_DEVICE float cos_approx(float x) {
  return flushed(__builtin_cosf(flushed(x)));
}

FA2_DEVICE float fma_rn(float a, float b, float c) {
  return flushed(__builtin_fmaf(flushed(a), flushed(b), flushed(c)));
}

FA2_DEVICE float max_f32(float a, float b) {
  if (a != a) return flushed(b);
  if (b != b) return flushed(a);
  if (a == 0 && b == 0) return float_of_bits(bits_of_float(a) & bits_of_float(b));  // prefers +0 to -0
  return flushed(a > b ? a : b);
}

FA2_DEVICE float max_or_nan_f32(float a, float b) {
  return a != a || b != b ? __builtin_nanf("") : max_f32(a, b);
}

FA2_DEVICE float min_f32(float a, float b) {
  return -max_f32(-a, -b);
}

FA2_DEVICE float abs_f32(float x) {
  return flushed(__builtin_fabsf(x));
}

FA2_DEVICE float magnitude(float x) {
  return __builtin_fabsf(x);
}

FA2_DEVICE int clz(u32 x) {
  return x == 0 ? 32 : __builtin_clz(x);
}

FA2_DEVICE int popc(u32 x) {
  return __builtin_popcount(x);
}

FA2_DEVICE u32 min_u32(u32 a, u32 b) {
  return a < b ? a : b;
}

struct WideProduct {
  u32 low;
  u32 high;
};

FA2_DEVICE WideProduct mul_wide_u32(u32 a, u32 b) {
  const u64 product = static_cast<u64>(a) * b;
  return {static_cast<u32>(product), static_cast<u32>(product >> 32)};
}

FA2_DEVICE u32 bits_of(float x) {
  return bits_of_float(x);
}
FA2_DEVICE float float_of(u32 bits) {
  return float_of_bits(bits);
}

FA2_DEVICE float infinity() {
  return __builtin_inff();
}

template <class Element>
FA2_DEVICE u32 cvt_rn_x2(float low, float high) {
  return rounded<Element>(low) | static_cast<u32>(rounded<Element>(high)) << 16;
}

template <class Element>
FA2_DEVICE u32 mul_rn_x2(u32 a, u32 b) {
  // Products of 16-bit elements have at most 22 bits, so a float holds them.
  const auto product = [](u32 x, u32 y) {
    return rounded<Element>(value_of<Element>(static_cast<u16>(x)) * value_of<Element>(static_cast<u16>(y)));
  };
  return product(a, b) | static_cast<u32>(product(a >> 16, b >> 16)) << 16;
}

FA2_DEVICE u32 prmt(u32 a, u32 b, u32 selector) {
  const u64 bytes = static_cast<u64>(b) << 32 | a;
  u32 chosen = 0;
  for (u32 i = 0; i < 4; ++i) {
    const u32 digit = selector >> 4 * i & 15u, byte = static_cast<u32>(bytes >> 8 * (digit & 7u)) & 255u;
    chosen |= (digit < 8 ? byte : byte >= 128 ? 255u : 0u) << 8 * i;
  }
  return chosen;
}

struct Pair {
  float low;
  float high;
};

template <class Element>
FA2_DEVICE Pair cvt_f32_x2(u32 packed) {
  return {value_of<Element>(static_cast<u16>(packed)), value_of<Element>(static_cast<u16>(packed >> 16))};
}

}  // namespace fa2::ptx
