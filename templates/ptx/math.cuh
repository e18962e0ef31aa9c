// Approximate special functions, which flush subnormals, and packed conversions.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

/// ex2.approx.ftz: returns 2^x; ex2(-inf) = 0. The relative error is at most 2^-22.
FA2_DEVICE float ex2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// lg2.approx.ftz: returns log2(x); lg2(0) = -inf. The error is at most 2^-22: absolute on [0.5, 2], relative
/// elsewhere.
FA2_DEVICE float lg2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// rcp.rn: returns 1 / x, correctly rounded.
FA2_DEVICE float rcp_rn(float x) {
  float y;
  asm("rcp.rn.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// div.rn: returns x / y, correctly rounded; keeps subnormals.
FA2_DEVICE float div_rn(float x, float y) {
  float quotient;
  asm("div.rn.f32 %0, %1, %2;" : "=f"(quotient) : "f"(x), "f"(y));
  return quotient;
}

/// rcp.approx.ftz: returns 1 / x. The error is at most one unit in the last place.
FA2_DEVICE float rcp_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// cvt.rmi.f32.f32: returns the largest integer that is not above x.
FA2_DEVICE float floor_f32(float x) {
  float y;
  asm("cvt.rmi.f32.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// cvt.rpi.f32.f32: returns the smallest integer that is not below x.
FA2_DEVICE float ceil_f32(float x) {
  float y;
  asm("cvt.rpi.f32.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// cvt.rni.f32.f32: returns the nearest integer, of two the even one.
FA2_DEVICE float round_f32(float x) {
  float y;
  asm("cvt.rni.f32.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// cvt.rzi.f32.f32: returns x without its fraction.
FA2_DEVICE float trunc_f32(float x) {
  float y;
  asm("cvt.rzi.f32.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// sqrt.approx.ftz.f32: returns the square root, with a relative error of at most 2^-23.
FA2_DEVICE float sqrt_approx(float x) {
  float y;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// rsqrt.approx.ftz.f32: returns 1 / sqrt(x), with a relative error of at most 2^-22.9.
FA2_DEVICE float rsqrt_approx(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// sin.approx.ftz.f32: returns sin(x), with an error of at most 2^-20.5 in [-pi, pi].
FA2_DEVICE float sin_approx(float x) {
  float y;
  asm("sin.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// cos.approx.ftz.f32: returns cos(x), with an error of at most 2^-20.5 in [-pi, pi].
FA2_DEVICE float cos_approx(float x) {
  float y;
  asm("cos.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// fma.rn.ftz: returns a * b + c.
FA2_DEVICE float fma_rn(float a, float b, float c) {
  float d;
  asm("fma.rn.ftz.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
  return d;
}

/// max.f32: returns the larger value. If one is NaN, returns the other.
FA2_DEVICE float max_f32(float a, float b) {
  float c;
  asm("max.ftz.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}

/// max.ftz.NaN.f32: returns the larger value. If one is NaN, returns NaN.
FA2_DEVICE float max_or_nan_f32(float a, float b) {
  float c;
  asm("max.ftz.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}

/// min.f32: returns the smaller value. If one is NaN, returns the other.
FA2_DEVICE float min_f32(float a, float b) {
  float c;
  asm("min.ftz.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}

/// abs.ftz.f32: returns |x|. As an operand's modifier it costs no instruction.
FA2_DEVICE float abs_f32(float x) {
  float y;
  asm("abs.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// abs.f32: returns |x|, for use with operations that do not flush subnormals.
FA2_DEVICE float magnitude(float x) {
  float y;
  asm("abs.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// clz.b32: returns the number of zeros above the highest set bit; 32 for 0.
FA2_DEVICE int clz(u32 x) {
  int zeros;
  asm("clz.b32 %0, %1;" : "=r"(zeros) : "r"(x));
  return zeros;
}

/// popc.b32: returns the number of set bits.
FA2_DEVICE int popc(u32 x) {
  int bits;
  asm("popc.b32 %0, %1;" : "=r"(bits) : "r"(x));
  return bits;
}

/// min.u32: returns the smaller value.
FA2_DEVICE u32 min_u32(u32 a, u32 b) {
  u32 c;
  asm("min.u32 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
  return c;
}

/// The 64 bits of a product, in halves.
struct WideProduct {
  u32 low;
  u32 high;
};

/// mul.wide.u32: returns a * b. It returns halves, because the compiler would compute with a 64-bit product's
/// upper half, which is 0.
FA2_DEVICE WideProduct mul_wide_u32(u32 a, u32 b) {
  WideProduct product;
  asm("{ .reg .b64 wide;\n"
      "mul.wide.u32 wide, %2, %3;\n"
      "mov.b64 {%0, %1}, wide; }"
      : "=r"(product.low), "=r"(product.high)
      : "r"(a), "r"(b));
  return product;
}

/// mov.b32: returns the bits of a float.
FA2_DEVICE u32 bits_of(float x) {
  u32 bits;
  asm("mov.b32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}

/// mov.b32: returns the float that has these bits.
FA2_DEVICE float float_of(u32 bits) {
  float x;
  asm("mov.b32 %0, %1;" : "=f"(x) : "r"(bits));
  return x;
}

FA2_DEVICE float infinity() {
  float x;
  asm("mov.b32 %0, 0x7f800000;" : "=f"(x));
  return x;
}

/// cvt.rn.{f16x2,bf16x2}.f32: rounds two floats to nearest even and packs them, `low` in the low half.
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

/// fma.rn.{f16x2,bf16x2}, with -0 added: returns the products of both elements, rounded to nearest even; keeps
/// subnormals.
template <class Element>
FA2_DEVICE u32 mul_rn_x2(u32 a, u32 b);

template <>
FA2_DEVICE u32 mul_rn_x2<Half>(u32 a, u32 b) {
  u32 product;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(product) : "r"(a), "r"(b), "r"(0x80008000u));
  return product;
}

template <>
FA2_DEVICE u32 mul_rn_x2<BFloat16>(u32 a, u32 b) {
  u32 product;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(product) : "r"(a), "r"(b), "r"(0x80008000u));
  return product;
}

/// prmt.b32: returns four of the bytes of a (0 to 3) and b (4 to 7), as the four digits of the selector name them, the
/// last digit the lowest byte. A digit from 8 on gives the sign of byte digit - 8, in all bits.
FA2_DEVICE u32 prmt(u32 a, u32 b, u32 selector) {
  u32 bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "r"(selector));
  return bytes;
}

/// Two unpacked elements.
struct Pair {
  float low;
  float high;
};

/// cvt.f32.{f16,bf16}: unpacks two elements; exact. A bfloat16 is the upper half of a float.
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
