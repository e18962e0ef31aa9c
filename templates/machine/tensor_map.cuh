// A tensor in global memory, described for TMA. Host code includes this file too, so it uses plain built-in
// types only.
#pragma once

namespace fa2 {

/// Permutation of 16-byte chunks in shared memory that makes neighbouring rows of a tile use different banks.
/// It depends on the address alone: with a span of 128 bytes, bits 4 to 6 are XORed with bits 7 to 9; with
/// 64, bits 4 and 5 with 7 and 8; with 32, bit 4 with 7. The pattern repeats every 8 spans. The values are
/// those in a wgmma descriptor.
enum class Swizzle : int { none = 0, span128 = 1, span64 = 2, span32 = 3 };

/// Returns how many bytes of a row a swizzle permutes.
constexpr int span_of(Swizzle swizzle) {
  return swizzle == Swizzle::span128  ? 128
         : swizzle == Swizzle::span64 ? 64
         : swizzle == Swizzle::span32 ? 32
                                      : 16;
}

/// A TMA descriptor, opaque to the kernel. encode_tensor_map() makes it (runtime/tensor_map.h), and it lies
/// in the kernel's parameter.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

}  // namespace fa2
