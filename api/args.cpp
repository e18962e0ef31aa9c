// AttentionArgs for the two contiguous layouts.
#include <fa2/args.h>
#include <generator/key_value_format.h>
#include <generator/sequences.h>

#include <limits>

namespace fa2 {
namespace {

/// Returns a * b * c, or the largest integer if it overflows. Validation rejects the latter; a wrapped
/// product could pass.
std::int64_t product(std::int64_t a, std::int64_t b, std::int64_t c = 1) {
  std::int64_t ab = 0, abc = 0;
  if (__builtin_mul_overflow(a, b, &ab) || __builtin_mul_overflow(ab, c, &abc)) {
    return std::numeric_limits<std::int64_t>::max();
  }
  return abc;
}

TensorStrides bshd(std::int64_t seqlen, std::int64_t heads, std::int64_t dim) {
  return {product(seqlen, heads, dim), dim, product(heads, dim)};
}

TensorStrides bhsd(std::int64_t seqlen, std::int64_t heads, std::int64_t dim) {
  return {product(heads, seqlen, dim), product(seqlen, dim), dim};
}

using Layout = TensorStrides (*)(std::int64_t seqlen, std::int64_t heads, std::int64_t dim);

AttentionArgs contiguous_args(const AttentionProblem& problem, Layout layout) {
  const AttentionProblem p = problem.normalized();
  AttentionArgs args;
  const std::int64_t q_rows = q_entries(p).rows, k_rows = k_entries(p).rows;
  args.q_strides = layout(q_rows, p.heads_q, p.head_dim);
  args.k_strides = layout(k_rows, p.heads_kv, key_value_format(p).key_elements());
  args.v_strides = p.values_in_keys ? args.k_strides : layout(k_rows, p.heads_kv, p.head_dim_v);
  args.out_strides = layout(q_rows, p.heads_q, p.head_dim_v);
  return args;
}

AttentionArgs with_pointers(const AttentionProblem& problem, AttentionArgs args, const void* q, const void* k,
                            const void* v, void* out, float* lse) {
  args.q = q;
  args.k = k;
  args.v = problem.values_in_keys ? k : v;
  args.out = out;
  args.lse = lse;
  return args;
}

}  // namespace

AttentionArgs bshd_args(const AttentionProblem& problem, const void* q, const void* k, const void* v,
                        void* out, float* lse) {
  return with_pointers(problem, contiguous_args(problem, bshd), q, k, v, out, lse);
}

AttentionArgs bhsd_args(const AttentionProblem& problem, const void* q, const void* k, const void* v,
                        void* out, float* lse) {
  return with_pointers(problem, contiguous_args(problem, bhsd), q, k, v, out, lse);
}

}  // namespace fa2
