// Attention on the CPU: one blocked implementation, in float64 or in the rounded steps of a 16-bit framework.
#include <reference/all_cores.h>
#include <reference/attention_reference.h>
#include <reference/row_block.h>
#include <reference/sequences.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

namespace fa2::reference {
namespace {

/// Returns the key on the diagonal of query i. Diagonals align both sequences' ends, or their beginnings.
std::int64_t diagonal(const AttentionProblem& p, const QueryPieces& pieces, std::int64_t i) {
  if (p.query_pieces) return query_position(pieces, i);
  return p.mask == MaskKind::causal_top_left ? i : i + p.seqlen_k - p.seqlen_q;
}

/// Arithmetic of the fused baseline: float32 scores, probabilities rounded once, and an output normalised
/// last.
struct Fused {
  using Real = double;
  DType dtype;
  double score(double s) const { return static_cast<float>(s); }
  double probability(double p, double /*sum*/) const { return round_to(static_cast<float>(p), dtype); }
  double output(double o, double sum) const { return round_to(static_cast<float>(o / sum), dtype); }
};

/// Returns the largest value of each of `count` equal groups; -infinity for an empty one.
std::vector<double> largest_of_groups(const std::vector<double>& values, std::int64_t count) {
  std::vector<double> largest(static_cast<std::size_t>(count), -std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < values.size(); ++i) {
    double& most = largest[i / (values.size() / largest.size())];
    most = std::max(most, values[i]);
  }
  return largest;
}

template <class Arithmetic>
Result compute(const Inputs& in, Arithmetic arithmetic, EmptyRowLse empty_row_lse) {
  const AttentionProblem& p = in.problem;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double empty = empty_row_lse == EmptyRowLse::positive_infinity ? kInfinity : -kInfinity;
  Result result;
  result.out = {p.batch, p.heads_q, p.seqlen_q, p.head_dim_v, {}};
  result.out.values.resize(static_cast<std::size_t>(p.batch * p.heads_q * p.seqlen_q * p.head_dim_v));
  result.lse.resize(static_cast<std::size_t>(p.batch * p.heads_q * p.seqlen_q));
  std::vector<double> largest(result.lse.size());

  const std::int64_t blocks = (p.seqlen_q + kRows - 1) / kRows, count = p.batch * p.heads_q * blocks;
  on_all_cores(count, [&](std::atomic<std::int64_t>& next) {
    RowBlock<Arithmetic> block(in, arithmetic);
    std::vector<typename Arithmetic::Real> out;
    for (std::int64_t i = next++; i < count; i = next++) {
      const std::int64_t first = (blocks - 1 - i % blocks) * kRows;  // longest first under a causal mask
      const std::int64_t batch = i / blocks / p.heads_q, head = i / blocks % p.heads_q;
      const std::int64_t kv_head = head / (p.heads_q / p.heads_kv);
      block.compute(batch, head, first);
      weigh(block, in.v, batch, kv_head, arithmetic, out);
      std::copy(out.begin(), out.end(), result.out.values.data() + offset_of(result.out, batch, head, first));
      const std::int64_t row = i / blocks * p.seqlen_q + first;
      for (std::int64_t r = 0; r < block.count(); ++r) {
        result.lse[static_cast<std::size_t>(row + r)] = block.lse(r, empty) * lse_unit(p.lse_base);
        largest[static_cast<std::size_t>(row + r)] = block.largest(r);
      }
    }
  });
  result.max_logits = largest_of_groups(largest, p.batch * p.heads_q);
  return result;
}

/// Returns K or V times the factors of its entries and heads. `strides`: of `factors`, whose first entry is the tensor's.
Tensor scaled(Tensor tensor, const float* factors, const TensorStrides& strides) {
  if (factors == nullptr) return tensor;
  for (std::int64_t b = 0; b < tensor.batch; ++b) {
    for (std::int64_t h = 0; h < tensor.heads; ++h) {
      const auto first = tensor.values.begin() + (b * tensor.heads + h) * tensor.rows * tensor.dim;
      const float factor = factors[b * strides.batch + h * strides.head];
      std::for_each(first, first + tensor.rows * tensor.dim, [&](float& value) { value *= factor; });
    }
  }
  return tensor;
}

/// Returns the keys and values that a rule's factors make of K and V.
Tensor keys_by(const ScoreRule& rule, Tensor k) {
  return scaled(std::move(k), rule.numbers.k_descale, rule.numbers.k_descale_strides);
}
Tensor values_by(const ScoreRule& rule, Tensor v) {
  return scaled(std::move(v), rule.numbers.v_descale, rule.numbers.v_descale_strides);
}

/// Computes one sequence after the other, as batches of one.
template <class Arithmetic>
Result compute_each(const Inputs& in, Arithmetic arithmetic, EmptyRowLse empty_row_lse) {
  const AttentionProblem& p = in.problem;
  const auto rows = static_cast<std::size_t>(in.q.batch * in.q.heads * in.q.rows);
  Result result;
  result.out = {in.q.batch, in.q.heads, in.q.rows, p.head_dim_v, {}};
  result.out.values.assign(rows * static_cast<std::size_t>(p.head_dim_v), std::nanf(""));
  result.lse.assign(rows, std::nan(""));
  std::int64_t b = 0;
  for (const Sequence& sequence : sequences_of(p, in.rule.numbers)) {
    const AttentionProblem alone = problem_of(p, sequence);
    const ScoreRule rule = rule_of(p, sequence, in.rule, b);
    const Tensor q = rows_of(in.q, sequence.q),
                 k = keys_by(rule, keys_of(p, in.k, sequence, b, in.rule.numbers)),
                 v = values_by(rule, keys_of(p, in.v, sequence, b, in.rule.numbers));
    ++b;
    const Result part = compute(Inputs{alone, q, k, v, rule}, arithmetic, empty_row_lse);
    put_rows(part.out, sequence.q, result.out);
    put_rows(part.lse, sequence.q, result.out, result.lse);
    result.max_logits.insert(result.max_logits.end(), part.max_logits.begin(), part.max_logits.end());
  }
  return result;
}

template <class Arithmetic>
Result attention(const AttentionProblem& full, const Tensor& q, const Tensor& k, const Tensor& v,
                 const ScoreRule& rule, Arithmetic arithmetic,
                 EmptyRowLse empty_row_lse = EmptyRowLse::positive_infinity) {
  if (full.varlen) return compute_each(Inputs{full, q, k, v, rule}, arithmetic, empty_row_lse);
  if (full.kv_type == KvType::same) return compute(Inputs{full, q, k, v, rule}, arithmetic, empty_row_lse);
  const Tensor keys = keys_by(rule, k), values = values_by(rule, v);
  return compute(Inputs{full, q, keys, values, rule}, arithmetic, empty_row_lse);
}

}  // namespace

double lse_unit(LseBase base) {
  return base == LseBase::two ? std::numbers::log2e : 1;
}

std::int64_t query_position(const QueryPieces& pieces, std::int64_t i) {
  return i < pieces.split ? i + pieces.first : i + pieces.second;
}

KeyRange visible_keys(const AttentionProblem& p, const QueryPieces& pieces, std::int64_t i) {
  KeyRange keys{0, p.seqlen_k};
  const std::int64_t position = diagonal(p, pieces, i);
  if (p.mask != MaskKind::none) keys.end = position + 1;
  if (p.window_left) keys.begin = position - *p.window_left;
  if (p.window_right) keys.end = std::min(keys.end, position + *p.window_right + 1);
  if (p.attention_chunk) {
    const std::int64_t chunk = *p.attention_chunk, at = position % chunk;
    const std::int64_t first = position - (at < 0 ? at + chunk : at);
    keys.begin = std::max(keys.begin, first);
    if (p.seqlen_k - first > chunk) keys.end = std::min(keys.end, first + chunk);
  }
  keys.begin = std::clamp<std::int64_t>(keys.begin, 0, p.seqlen_k);
  keys.end = std::clamp<std::int64_t>(keys.end, keys.begin, p.seqlen_k);
  return keys;
}

bool is_visible(const AttentionProblem& problem, std::int64_t i, std::int64_t j, const QueryPieces& pieces) {
  const KeyRange keys = visible_keys(problem, pieces, i);
  return j >= keys.begin && j < keys.end;
}

double score_before_texts(const AttentionProblem& p, const ScoreRule& rule, const ScorePosition& at,
                          double product) {
  const AttentionArgs& numbers = rule.numbers;
  double score = product * rule.scale;
  if (p.softcap) score = double{numbers.softcap} * std::tanh(score / double{numbers.softcap});
  if (p.alibi) {
    const std::int64_t first = numbers.alibi_slopes_per_batch ? at.batch * p.heads_q : 0;
    const std::int64_t position = p.query_pieces ? at.query : at.query + p.seqlen_k - p.seqlen_q;
    const std::int64_t distance = std::abs(position - at.key);
    score -= double{numbers.alibi_slopes[first + at.head]} * static_cast<double>(distance);
  }
  return score;
}

double score_of(const AttentionProblem& p, const ScoreRule& rule, const ScorePosition& at, double product) {
  const double score = score_before_texts(p, rule, at, product);
  return rule.functions.mod ? rule.functions.mod(score, at) : score;
}

double score_slope_of(const AttentionProblem& p, const ScoreRule& rule, const ScorePosition& at,
                      double product) {
  double slope = 1;
  if (p.softcap) {
    const double capped = std::tanh(product * rule.scale / double{rule.numbers.softcap});
    slope *= 1 - capped * capped;
  }
  if (rule.functions.slope) slope *= rule.functions.slope(score_before_texts(p, rule, at, product), at);
  return slope;
}

Result attention_f64(const AttentionProblem& problem, const Tensor& q, const Tensor& k, const Tensor& v,
                     const ScoreRule& rule, EmptyRowLse empty_row_lse) {
  return attention(problem.normalized(), q, k, v, rule, Exact{}, empty_row_lse);
}

Tensor attention_baseline(const AttentionProblem& problem, const Tensor& q, const Tensor& k, const Tensor& v,
                          const ScoreRule& rule) {
  return attention(problem.normalized(), q, k, v, rule, Unfused{problem.dtype}).out;
}

Tensor attention_fused_baseline(const AttentionProblem& problem, const Tensor& q, const Tensor& k,
                                const Tensor& v, const ScoreRule& rule) {
  return attention(problem.normalized(), q, k, v, rule, Fused{problem.dtype}).out;
}

}  // namespace fa2::reference
