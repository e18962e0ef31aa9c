// Where an operand lies in memory, and whether two of them touch the same bytes.
#pragma once

#include <operation/operands/operands.h>

namespace fa2 {

/// Wide enough for any product of a valid extent and a 64-bit stride, in bytes.
__extension__ typedef __int128 Int128;

/// Half open; the empty range touches nothing.
struct ByteRange {
  Int128 begin = 0;
  Int128 end = 0;

  bool in_address_space() const { return begin >= 0 && end <= (Int128{1} << 64); }
  bool touches(const ByteRange& other) const { return begin < other.end && other.begin < end; }
};

/// From the lowest to the highest byte of any element, strides of either sign.
ByteRange range_of(const Operand& operand);

/// Whether no two rows of a strided operand share an element, by nested strides: sorted by magnitude, each
/// used stride (extent > 1) is at least the extent covered by the smaller ones. Otherwise `broken` is the
/// dimension whose stride is too small, and `least` what it would have to be.
struct RowOverlap {
  int broken = -1;  ///< index into strides; -1: the rows are disjoint
  Int128 least = 0;
};
RowOverlap overlapping_rows(const Operand& operand);

/// Whether two strided operands with touching ranges still share no byte because they sit in different columns
/// of a common row stride, as slices of one packed buffer do, or in different parts of a common head or batch stride, as K
/// and V of a cache's pages. Exact argument: modulo any stride of either, every address of an operand falls into one
/// interval (strides that are multiples of the modulus do not move it, others widen it); the two intervals must be disjoint
/// on the circle.
bool disjoint_columns(const Operand& a, const Operand& b);

}  // namespace fa2
