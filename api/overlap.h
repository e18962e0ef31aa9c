// Where a strided tensor lies in memory, and whether two of them touch the same bytes.
#pragma once

#include <fa2/args.h>
#include <fa2/problem.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace fa2 {

/// Wide enough for any product of a valid extent and a 64-bit stride.
__extension__ typedef __int128 Int128;

/// A (batch, head, row, dim) tensor of 2-byte elements; strides in elements, dim contiguous.
struct TensorView {
  std::string_view name;
  std::uintptr_t address = 0;
  std::array<std::int64_t, 3> extents{};  ///< batch, heads, rows
  std::array<std::int64_t, 3> strides{};  ///< of the same
  std::int64_t dim = 0;

  bool empty() const { return extents[0] == 0 || extents[1] == 0 || extents[2] == 0; }
};

/// Half open; the empty range touches nothing.
struct ByteRange {
  Int128 begin = 0;
  Int128 end = 0;

  bool in_address_space() const { return begin >= 0 && end <= (Int128{1} << 64); }
  bool touches(const ByteRange& other) const { return begin < other.end && other.begin < end; }
};

enum TensorIndex : std::size_t { kQ, kK, kV, kO };

/// Q, K, V and O of one call.
std::array<TensorView, 4> views_of(const AttentionProblem& problem, const AttentionArgs& args);

/// From the lowest to the highest byte of any element, strides of either sign.
ByteRange range_of(const TensorView& view);

/// Whether no two rows of the view share an element, by nested strides: sorted by magnitude, each used stride
/// (extent > 1) is at least the extent covered by the smaller ones. Otherwise `broken` is the dimension whose
/// stride is too small, and `least` what it would have to be.
struct RowOverlap {
  int broken = -1;  ///< index into strides; -1: the rows are disjoint
  Int128 least = 0;
};
RowOverlap overlapping_rows(const TensorView& view);

/// Whether two views with touching ranges still share no byte because they sit in different columns of a
/// common row stride, as slices of one packed buffer do. Exact argument: modulo the row stride of either
/// view, every address of a view falls into one interval (strides that are multiples of the modulus do not
/// move it, others widen it); the two intervals must be disjoint on the circle.
bool disjoint_columns(const TensorView& a, const TensorView& b);

}  // namespace fa2
