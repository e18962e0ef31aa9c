// Conversions of e4m3fn, an 8-bit float, for GPUs from sm_89 on.
#pragma once

#include "ptx/registers.cuh"

namespace fa2::ptx {

/// Two registers, each of two elements.
struct PairOfPairs {
  u32 low;
  u32 high;
};

/// cvt.rn.f16x2.e4m3x2: unpacks bytes 0 and 1 into `low`, bytes 2 and 3 into `high`; exact. NaN stays NaN.
FA2_DEVICE PairOfPairs cvt_f16_e4m3_x4(u32 bytes) {
  PairOfPairs pairs;
  asm("{ .reg .b16 low, high;\n"
      "mov.b32 {low, high}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 %0, low;\n"
      "cvt.rn.f16x2.e4m3x2 %1, high; }"
      : "=r"(pairs.low), "=r"(pairs.high)
      : "r"(bytes));
  return pairs;
}

/// cvt.rn.satfinite.e4m3x2.f32: rounds four floats to nearest even and packs them, `a` in the lowest byte. Beyond 448,
/// infinities too, a float becomes 448 with its sign. NaN becomes 0x7f.
FA2_DEVICE u32 cvt_rn_e4m3_x4(float a, float b, float c, float d) {
  u32 bytes;
  asm("{ .reg .b16 low, high;\n"
      "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
      "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
      "mov.b32 %0, {low, high}; }"
      : "=r"(bytes)
      : "f"(a), "f"(b), "f"(c), "f"(d));
  return bytes;
}

}  // namespace fa2::ptx
