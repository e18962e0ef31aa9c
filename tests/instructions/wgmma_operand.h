// The layout of wgmma's operands in shared memory, written a second time for the tests, element by element.
#pragma once

#include <generator/wgmma_shapes.h>

#include <templates/machine/tensor_map.cuh>

namespace fa2::test {

/// An operand of `rows` (m or n) x `k` 16-bit elements, at a multiple of 1024 bytes.
struct OperandPlacement {
  int rows;
  int k;
  WgmmaOperand major;
  Swizzle swizzle;

  bool k_major() const { return major == WgmmaOperand::k_major; }
  int span() const { return span_of(swizzle); }  ///< bytes; 16 without swizzle

  /// Returns the offset of one element in bytes. With a swizzle: tiles of one span's width, with one row for
  /// each m or n (or k). Without: blocks of 8 x 16 bytes, first along m or n, then along k.
  int byte_of(int mn, int kk) const {
    const int row = k_major() ? mn : kk, column = 2 * (k_major() ? kk : mn);
    if (swizzle == Swizzle::none) {
      const int block_mn = k_major() ? row / 8 : column / 16, block_k = k_major() ? column / 16 : row / 8;
      return (block_k * (rows / 8) + block_mn) * 128 + row % 8 * 16 + column % 16;
    }
    const int byte = column / span() * tile_bytes() + row * span() + column % span();
    return byte ^ ((byte >> 7 & (span() / 16 - 1)) << 4);
  }

  int leading_bytes() const {
    if (swizzle == Swizzle::none) return rows / 8 * 128;
    return k_major() ? 16 : tile_bytes();
  }
  int stride_bytes() const { return swizzle == Swizzle::none ? 128 : 8 * span(); }
  /// Returns the offset of step `kk / 16` in bytes.
  int step_bytes(int kk) const {
    if (swizzle == Swizzle::none) return kk / 8 * leading_bytes();
    return k_major() ? 2 * kk / span() * tile_bytes() + 2 * kk % span() : kk * span();
  }
  /// Returns the offset of row (or column) `mn`, a multiple of 64, in bytes.
  int row_bytes(int mn) const {
    if (swizzle == Swizzle::none) return mn / 8 * 128;
    return k_major() ? mn * span() : 2 * mn / span() * tile_bytes();
  }
  int bytes() const {
    if (swizzle == Swizzle::none) return 2 * rows * k;
    return ((k_major() ? 2 * k : 2 * rows) + span() - 1) / span() * tile_bytes();
  }

 private:
  int tile_bytes() const { return span() * (k_major() ? rows : k); }
};

}  // namespace fa2::test
