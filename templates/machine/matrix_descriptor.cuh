// wgmma operands in shared memory.
#pragma once

#include "machine/tensor_map.cuh"
#include "ptx/registers.cuh"

namespace fa2::ptx {

/// The contiguous dimension of an operand: k, over which the product sums, or the other one.
enum class Major : int { k, mn };

/// A wgmma matrix descriptor: the location of an operand in shared memory. It must be equal in all threads of
/// the warpgroup, and derived from warp-uniform values alone. Otherwise the compiler moves it between
/// register files before every wgmma.
struct MatrixDescriptor {
  u64 bits;

  /// Returns the descriptor `bytes` further on; a multiple of 16.
  FA2_DEVICE constexpr MatrixDescriptor advanced(u32 bytes) const { return {bits + (bytes >> 4)}; }
};

/// Returns the descriptor of a tile: R rows of `span_of(kSwizzle)` bytes, with its pattern aligned to 8
/// spans.
///   Major::k: a row is contiguous in k. stride_bytes: from 8 rows to the next 8 (8 spans). leading_bytes:
///   unused. The next 16 k are 32 bytes on, and after a span in another tile.
///   Major::mn: a row is one k. stride_bytes: from 8 k to the next 8 (8 spans). leading_bytes: to the tile
///   with the next `span` bytes of m or n. The next 16 k are 16 spans on.
/// Without a swizzle, a tile consists of blocks with 8 rows of 16 bytes. k-major: leading_bytes leads to the
/// next 8 k, stride_bytes to the next 8 rows. mn-major: leading_bytes leads to the next 8 k, stride_bytes to
/// the next 8 m or n.
template <Swizzle kSwizzle>
FA2_DEVICE constexpr MatrixDescriptor matrix_descriptor(SharedAddress start, u32 leading_bytes,
                                                        u32 stride_bytes) {
  return {(start & 0x3ffffu) >> 4 | static_cast<u64>(leading_bytes >> 4) << 16 |
          static_cast<u64>(stride_bytes >> 4) << 32 | static_cast<u64>(kSwizzle) << 62};
}

}  // namespace fa2::ptx
