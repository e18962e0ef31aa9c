// The tensor core instruction of sm_80 and later GPUs.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

/// mma.m16n8k16, D += A B, float32 accumulators. With g = lane / 4 and q = lane % 4:
///   d: (g, 2q), (g, 2q+1), (g+8, 2q), (g+8, 2q+1)
///   a: pairs at (g, 2q), (g+8, 2q), (g, 2q+8), (g+8, 2q+8)     b: pairs at (2q, g), (2q+8, g), rows being k
template <class Element>
FA2_DEVICE void mma_m16n8k16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1);

template <>
FA2_DEVICE void mma_m16n8k16<Half>(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
FA2_DEVICE void mma_m16n8k16<BFloat16>(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace fa2::ptx
