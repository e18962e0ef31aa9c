// Operands of wgmma in shared memory.
#pragma once

#include "machine/tensor_map.cuh"
#include "ptx/registers.cuh"

namespace fa2::ptx {

/// Which dimension of an operand is contiguous: k, over which the product sums, or the other one.
enum class Major : int { k, mn };

/// Where an operand lies in shared memory: a wgmma matrix descriptor. The same value in every thread of the
/// warpgroup; derived from warp-uniform values alone, or the compiler moves it between register files before
/// every wgmma.
struct MatrixDescriptor {
  u64 bits;

  /// Further on by a multiple of 16 bytes.
  FA2_DEVICE constexpr MatrixDescriptor advanced(u32 bytes) const { return {bits + (bytes >> 4)}; }
};

/// A tile of R rows of `span_of(kSwizzle)` bytes, its pattern aligned to 8 spans, one below the other:
///   Major::k: a row is k-contiguous. stride_bytes: from 8 rows to the next 8 (8 spans). leading_bytes:
///   unused
///     when swizzled. The next 16 k are 32 bytes on, and after a span in another tile.
///   Major::mn: a row is one k. stride_bytes: from 8 k to the next 8 (8 spans). leading_bytes: to the tile
///   with
///     the next `span` bytes of m or n. The next 16 k are 16 spans on.
/// Without swizzle, a tile is made of blocks of 8 rows of 16 bytes; k-major: leading_bytes to the next 8 k,
/// stride_bytes to the next 8 rows; mn-major: leading_bytes to the next 8 k, stride_bytes to the next 8 m or
/// n.
template <Swizzle kSwizzle>
FA2_DEVICE constexpr MatrixDescriptor matrix_descriptor(SharedAddress start, u32 leading_bytes,
                                                        u32 stride_bytes) {
  return {(start & 0x3ffffu) >> 4 | static_cast<u64>(leading_bytes >> 4) << 16 |
          static_cast<u64>(stride_bytes >> 4) << 32 | static_cast<u64>(kSwizzle) << 62};
}

}  // namespace fa2::ptx
