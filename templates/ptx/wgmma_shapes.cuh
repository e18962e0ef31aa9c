// A placeholder for editors and clang-format. The generator renders this file for each kernel.
#pragma once
#define FA2_PLACEHOLDER  // how the generator knows this file

#include "ptx/wgmma.cuh"

namespace fa2::ptx {

template <>
FA2_DEVICE void wgmma_ss<Half, 8, Major::k, Major::k>(float (&d)[4], MatrixDescriptor a, MatrixDescriptor b) {
  asm volatile(
      "{\n  .reg .pred p;\n  setp.ne.b32 p, %6, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;\n}"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "l"(a.bits), "l"(b.bits), "r"(0)
      : "memory");
}

}  // namespace fa2::ptx
