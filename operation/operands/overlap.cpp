// Computes in 128 bits, so that no stride can wrap around.
#include <operation/operands/overlap.h>

#include <algorithm>
#include <utility>

namespace fa2 {
namespace {

Int128 magnitude(std::int64_t stride) {
  return stride < 0 ? -Int128{stride} : Int128{stride};
}

/// An interval of addresses modulo some stride: [begin, begin + width); bytes.
struct Columns {
  Int128 begin = 0;
  Int128 width = 0;
};

Columns columns_of(const Operand& t, std::int64_t modulus) {
  const int element_bytes = bytes_of(t.element);
  Columns columns{Int128{t.address()}, Int128{t.extents[3]} * element_bytes};
  for (std::size_t i = 0; i < 3; ++i) {
    if (t.extents[i] <= 1) continue;
    std::int64_t stride = 0;
    const bool is_huge = __builtin_mul_overflow(t.strides[i], element_bytes, &stride);
    if (!is_huge && stride % modulus == 0) continue;
    const Int128 reach = Int128{t.extents[i] - 1} * t.strides[i] * element_bytes;
    columns.begin += reach < 0 ? reach : 0;
    columns.width += reach < 0 ? -reach : reach;
  }
  return columns;
}

Int128 positive_remainder(Int128 value, Int128 modulus) {
  const Int128 remainder = value % modulus;
  return remainder < 0 ? remainder + modulus : remainder;
}

/// Returns whether the operands are disjoint modulo stride `dimension` of `t`. A stride that is 0, or exceeds 64 bits in bytes,
/// proves nothing.
bool disjoint_modulo(const Operand& a, const Operand& b, const Operand& t, std::size_t dimension) {
  std::int64_t stride = 0, modulus = 0;
  if (__builtin_mul_overflow(t.strides[dimension], bytes_of(t.element), &stride) || stride == 0) return false;
  if (__builtin_sub_overflow(0, stride, &modulus)) return false;
  modulus = std::max(stride, modulus);
  const Columns in_a = columns_of(a, modulus), in_b = columns_of(b, modulus);
  const Int128 a_to_b = positive_remainder(in_b.begin - in_a.begin, modulus);
  return a_to_b >= in_a.width && modulus - a_to_b >= in_b.width;
}

}  // namespace

ByteRange range_of(const Operand& t) {
  const Int128 begin = t.address();
  Int128 low = 0, high = t.extents[3];
  if (t.strided) {
    for (std::size_t i = 0; i < 3; ++i) {
      const Int128 reach = Int128{t.extents[i] - 1} * t.strides[i];
      (reach < 0 ? low : high) += reach;
    }
  } else {
    high *= Int128{t.extents[0]} * t.extents[1] * t.extents[2];
  }
  return {begin + low * bytes_of(t.element), begin + high * bytes_of(t.element)};
}

RowOverlap overlapping_rows(const Operand& t) {
  std::array<int, 3> order = {0, 1, 2};
  const auto sort_pair = [&](std::size_t a, std::size_t b) {
    const auto stride_of = [&](int dimension) {
      return magnitude(t.strides[static_cast<std::size_t>(dimension)]);
    };
    if (stride_of(order[b]) < stride_of(order[a])) std::swap(order[a], order[b]);
  };
  sort_pair(0, 1);
  sort_pair(1, 2);
  sort_pair(0, 1);

  Int128 covered = t.extents[3];
  for (const int dimension : order) {
    const std::size_t i = static_cast<std::size_t>(dimension);
    if (t.extents[i] <= 1) continue;
    const Int128 stride = magnitude(t.strides[i]);
    if (stride < covered) return {dimension, covered};
    covered += Int128{t.extents[i] - 1} * stride;
  }
  return {};
}

bool disjoint_columns(const Operand& a, const Operand& b) {
  for (const std::size_t dimension : {2u, 1u, 0u}) {
    if (disjoint_modulo(a, b, a, dimension) || disjoint_modulo(a, b, b, dimension)) return true;
  }
  return false;
}

}  // namespace fa2
