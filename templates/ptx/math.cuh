// Approximate special functions (flushing subnormals) and packed conversions.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

/// ex2.approx.ftz: 2^x; ex2(-inf) = 0. Maximum relative error 2^-22.
FA2_DEVICE float ex2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// lg2.approx.ftz: log2(x); lg2(0) = -inf. Maximum absolute error 2^-22 on [0.5, 2], relative elsewhere.
FA2_DEVICE float lg2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// rcp.rn: 1 / x, correctly rounded.
FA2_DEVICE float rcp_rn(float x) {
  float y;
  asm("rcp.rn.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// rcp.approx.ftz: 1 / x. Maximum error one unit in the last place.
FA2_DEVICE float rcp_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// fma.rn.ftz: a * b + c.
FA2_DEVICE float fma_rn(float a, float b, float c) {
  float d;
  asm("fma.rn.ftz.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
  return d;
}

/// max.f32: the larger one; a NaN loses to a number.
FA2_DEVICE float max_f32(float a, float b) {
  float c;
  asm("max.ftz.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}

/// max.ftz.NaN.f32: the same; but a NaN wins.
FA2_DEVICE float max_or_nan_f32(float a, float b) {
  float c;
  asm("max.ftz.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}

/// min.f32: the smaller one; a NaN loses to a number.
FA2_DEVICE float min_f32(float a, float b) {
  float c;
  asm("min.ftz.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}

/// abs.ftz.f32: an operand's modifier.
FA2_DEVICE float abs_f32(float x) {
  float y;
  asm("abs.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// abs.f32: the same beside operations that do not flush subnormals.
FA2_DEVICE float magnitude(float x) {
  float y;
  asm("abs.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// clz.b32: zeros above the highest bit; 32 of 0.
FA2_DEVICE int clz(u32 x) {
  int zeros;
  asm("clz.b32 %0, %1;" : "=r"(zeros) : "r"(x));
  return zeros;
}

/// popc.b32: how many bits are set.
FA2_DEVICE int popc(u32 x) {
  int bits;
  asm("popc.b32 %0, %1;" : "=r"(bits) : "r"(x));
  return bits;
}

/// min.u32: the smaller one.
FA2_DEVICE u32 min_u32(u32 a, u32 b) {
  u32 c;
  asm("min.u32 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
  return c;
}

/// The 64 bits of a product.
struct WideProduct {
  u32 low;
  u32 high;
};

/// mul.wide.u32. In halves: of 64 bits the compiler would go on with the upper ones, which are zeros.
FA2_DEVICE WideProduct mul_wide_u32(u32 a, u32 b) {
  WideProduct product;
  asm("{ .reg .b64 wide;\n"
      "mul.wide.u32 wide, %2, %3;\n"
      "mov.b64 {%0, %1}, wide; }"
      : "=r"(product.low), "=r"(product.high)
      : "r"(a), "r"(b));
  return product;
}

/// mov.b32: the representation of a float.
FA2_DEVICE u32 bits_of(float x) {
  u32 bits;
  asm("mov.b32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}

FA2_DEVICE float infinity() {
  float x;
  asm("mov.b32 %0, 0x7f800000;" : "=f"(x));
  return x;
}

/// cvt.rn.{f16x2,bf16x2}.f32: two floats rounded to nearest even and packed, `low` in the low half.
template <class Element>
FA2_DEVICE u32 cvt_rn_x2(float low, float high);

template <>
FA2_DEVICE u32 cvt_rn_x2<Half>(float low, float high) {
  u32 packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

template <>
FA2_DEVICE u32 cvt_rn_x2<BFloat16>(float low, float high) {
  u32 packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

/// Two packed elements as floats.
struct Pair {
  float low;
  float high;
};

/// cvt.f32.{f16,bf16}, exact. A bfloat16 is the upper half of a float.
template <class Element>
FA2_DEVICE Pair cvt_f32_x2(u32 packed);

template <>
FA2_DEVICE Pair cvt_f32_x2<Half>(u32 packed) {
  Pair pair;
  asm("{ .reg .b16 low, high;\n"
      "mov.b32 {low, high}, %2;\n"
      "cvt.f32.f16 %0, low;\n"
      "cvt.f32.f16 %1, high; }"
      : "=f"(pair.low), "=f"(pair.high)
      : "r"(packed));
  return pair;
}

template <>
FA2_DEVICE Pair cvt_f32_x2<BFloat16>(u32 packed) {
  Pair pair;
  asm("mov.b32 %0, %1;" : "=f"(pair.low) : "r"(packed << 16));
  asm("mov.b32 %0, %1;" : "=f"(pair.high) : "r"(packed & 0xffff0000u));
  return pair;
}

}  // namespace fa2::ptx
