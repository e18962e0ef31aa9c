// Finds the 16 x n or n x 16 elements of a wgmma operand, as the hardware does.
#pragma once

#include <interpreter/tensor_box.h>

#include <cstdint>

namespace fa2::interpreter {

/// A decoded wgmma matrix descriptor (PTX ISA, "Matrix Descriptor Format").
class OperandLayout {
 public:
  OperandLayout(std::uint64_t descriptor, bool k_major)
      : start_(static_cast<std::uint32_t>(descriptor & 0x3fff) << 4),
        leading_(static_cast<std::uint32_t>(descriptor >> 16 & 0x3fff) << 4),
        stride_(static_cast<std::uint32_t>(descriptor >> 32 & 0x3fff) << 4),
        swizzle_(static_cast<Swizzle>(descriptor >> 62)),
        k_major_(k_major) {}

  /// Returns whether the unused bits and the base offset are 0. Only misaligned patterns need a base offset.
  static bool is_plain(std::uint64_t descriptor) { return (descriptor & 0x3fff'c000'c000'c000) == 0; }

  /// Calls visit(address, mn, k) for every 16 bytes of rows (or columns) [first, end) of the operand: 8
  /// elements from (mn, k) on. They lie along k if the operand is k-major, else along mn. Both bounds must be
  /// multiples of 8.
  template <class Visit>
  void for_each_chunk(int first, int end, const Visit& visit) const {
    for (int outer = k_major_ ? first : 0; outer < (k_major_ ? end : 16); ++outer) {
      for (int inner = k_major_ ? 0 : first; inner < (k_major_ ? 16 : end); inner += 8)
        visit(chunk(outer, inner / 8), k_major_ ? outer : inner, k_major_ ? inner : outer);
    }
  }

 private:
  /// Returns the address of 16-byte chunk `chunk` in a row. A row is one mn if the operand is k-major, else
  /// one k.
  std::uint32_t chunk(int row, int chunk) const {
    const auto r = static_cast<std::uint32_t>(row), c = static_cast<std::uint32_t>(chunk);
    if (swizzle_ == Swizzle::none) {
      const std::uint32_t of_mn = k_major_ ? r / 8 : c, of_k = k_major_ ? c : r / 8;
      return start_ + of_mn * stride_ + of_k * leading_ + r % 8 * 16;
    }
    const auto span = static_cast<std::uint32_t>(span_of(swizzle_)), chunks = span / 16;
    const std::uint32_t tile = k_major_ ? 0 : c / chunks * leading_, in_tile = k_major_ ? c : c % chunks;
    return swizzled(swizzle_, start_ + tile + r / 8 * stride_ + r % 8 * span + in_tile * 16);
  }

  std::uint32_t start_, leading_, stride_;
  Swizzle swizzle_;
  bool k_major_;
};

}  // namespace fa2::interpreter
