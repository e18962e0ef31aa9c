// Where an operand lies in memory, and whether two operands share bytes.
#pragma once

#include <operation/operands/operands.h>

namespace fa2 {

/// Holds any product of a valid extent and a 64-bit stride; bytes.
__extension__ typedef __int128 Int128;

/// Bytes [begin, end). An empty range touches nothing.
struct ByteRange {
  Int128 begin = 0;
  Int128 end = 0;

  bool in_address_space() const { return begin >= 0 && end <= (Int128{1} << 64); }
  bool touches(const ByteRange& other) const { return begin < other.end && other.begin < end; }
};

/// Returns the range from the lowest to the highest byte of any element. Strides may have either sign.
ByteRange range_of(const Operand& operand);

/// Whether rows of an operand overlap, judged by nested strides: sorted by magnitude, each used stride (extent > 1) must be at
/// least the extent that the smaller ones cover.
struct RowOverlap {
  int broken = -1;   ///< dimension whose stride is too small; -1: the rows are disjoint
  Int128 least = 0;  ///< smallest magnitude that this stride may have; elements
};
RowOverlap overlapping_rows(const Operand& operand);

/// Returns whether two strided operands share no byte although their ranges touch. They may lie in different columns of a common
/// row stride, like slices of one packed buffer, or in different parts of a common head or batch stride, like K and V of a cache's
/// pages. Modulo any stride of either operand, all addresses of an operand fall into one interval: strides that are multiples of
/// the modulus do not move it, and others widen it. The operands are disjoint if for some stride the two intervals are, on the
/// circle.
bool disjoint_columns(const Operand& a, const Operand& b);

}  // namespace fa2
