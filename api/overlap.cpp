// Extents and overlaps of strided tensors, in 128-bit arithmetic so that no stride can wrap around.
#include <api/overlap.h>

#include <limits>
#include <utility>

namespace fa2 {
namespace {

constexpr int kElementBytes = 2;

Int128 magnitude(std::int64_t stride) {
  return stride < 0 ? -Int128{stride} : Int128{stride};
}

/// Bytes modulo some row stride: [begin, begin + width).
struct Columns {
  Int128 begin = 0;
  Int128 width = 0;
};

Columns columns_of(const TensorView& view, std::int64_t modulus) {
  Columns columns{Int128{view.address}, Int128{view.dim} * kElementBytes};
  for (std::size_t i = 0; i < 3; ++i) {
    if (view.extents[i] <= 1 || view.strides[i] % modulus == 0) continue;
    const Int128 reach = Int128{view.extents[i] - 1} * view.strides[i] * kElementBytes;
    columns.begin += reach < 0 ? reach : 0;
    columns.width += reach < 0 ? -reach : reach;
  }
  return columns;
}

Int128 positive_remainder(Int128 value, Int128 modulus) {
  const Int128 remainder = value % modulus;
  return remainder < 0 ? remainder + modulus : remainder;
}

/// `row_stride` in elements. One without a 64-bit magnitude proves nothing, like 0.
bool disjoint_modulo(const TensorView& a, const TensorView& b, std::int64_t row_stride) {
  if (row_stride == 0 || row_stride == std::numeric_limits<std::int64_t>::min()) return false;
  const std::int64_t elements = row_stride < 0 ? -row_stride : row_stride;
  const Columns in_a = columns_of(a, elements), in_b = columns_of(b, elements);
  const Int128 modulus = Int128{elements} * kElementBytes;
  const Int128 a_to_b = positive_remainder(in_b.begin - in_a.begin, modulus);
  return a_to_b >= in_a.width && modulus - a_to_b >= in_b.width;
}

TensorView view_of(std::string_view name, const void* data, std::int64_t batch, std::int64_t heads,
                   std::int64_t rows, std::int64_t dim, const TensorStrides& strides) {
  return {name,
          reinterpret_cast<std::uintptr_t>(data),
          {batch, heads, rows},
          {strides.batch, strides.head, strides.row},
          dim};
}

}  // namespace

std::array<TensorView, 4> views_of(const AttentionProblem& problem, const AttentionArgs& args) {
  const AttentionProblem& p = problem;
  const std::int64_t heads_kv = p.heads_kv == 0 ? p.heads_q : p.heads_kv;
  const std::int64_t dim_v = p.head_dim_v == 0 ? p.head_dim : p.head_dim_v;
  return {view_of("q", args.q, p.batch, p.heads_q, p.seqlen_q, p.head_dim, args.q_strides),
          view_of("k", args.k, p.batch, heads_kv, p.seqlen_k, p.head_dim, args.k_strides),
          view_of("v", args.v, p.batch, heads_kv, p.seqlen_k, dim_v, args.v_strides),
          view_of("o", args.o, p.batch, p.heads_q, p.seqlen_q, dim_v, args.o_strides)};
}

ByteRange range_of(const TensorView& view) {
  Int128 low = 0, high = view.dim;
  for (std::size_t i = 0; i < 3; ++i) {
    const Int128 reach = Int128{view.extents[i] - 1} * view.strides[i];
    (reach < 0 ? low : high) += reach;
  }
  return {Int128{view.address} + low * kElementBytes, Int128{view.address} + high * kElementBytes};
}

RowOverlap overlapping_rows(const TensorView& view) {
  std::array<int, 3> order = {0, 1, 2};
  const auto sort_pair = [&](std::size_t a, std::size_t b) {
    const auto stride_of = [&](int dimension) {
      return magnitude(view.strides[static_cast<std::size_t>(dimension)]);
    };
    if (stride_of(order[b]) < stride_of(order[a])) std::swap(order[a], order[b]);
  };
  sort_pair(0, 1);
  sort_pair(1, 2);
  sort_pair(0, 1);

  Int128 covered = view.dim;
  for (const int dimension : order) {
    const std::size_t i = static_cast<std::size_t>(dimension);
    if (view.extents[i] <= 1) continue;
    const Int128 stride = magnitude(view.strides[i]);
    if (stride < covered) return {dimension, covered};
    covered += Int128{view.extents[i] - 1} * stride;
  }
  return {};
}

bool disjoint_columns(const TensorView& a, const TensorView& b) {
  const std::int64_t row_a = a.strides[2], row_b = b.strides[2];
  return disjoint_modulo(a, b, row_a) || (row_b != row_a && disjoint_modulo(a, b, row_b));
}

}  // namespace fa2
