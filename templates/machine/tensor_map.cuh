// A tensor in global memory as TMA sees it. Host code includes this file too: plain built-in types only.
#pragma once

namespace fa2 {

/// How 16-byte chunks of shared memory are permuted, so that neighbouring rows of a tile meet different
/// banks. It is a function of the address alone: with a span of 128 bytes, bits 4..6 are XORed with
/// bits 7..9; with 64, bits 4..5 with 7..8; with 32, bit 4 with 7. The pattern repeats every 8 spans. The
/// values are those of a wgmma descriptor.
enum class Swizzle : int { none = 0, span128 = 1, span64 = 2, span32 = 3 };

/// Bytes of a row that a swizzle permutes.
constexpr int span_of(Swizzle swizzle) {
  return swizzle == Swizzle::span128  ? 128
         : swizzle == Swizzle::span64 ? 64
         : swizzle == Swizzle::span32 ? 32
                                      : 16;
}

/// Opaque to a kernel; encode_tensor_map (runtime/tensor_map.h) makes it. Lies inside the kernel's parameter.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

}  // namespace fa2
