// Attention on the CPU: one blocked implementation, in float64 or in the rounded steps of a framework in 16
// bits.
#include <fmt/format.h>
#include <generator/sequences.h>
#include <reference/attention_reference.h>
#include <reference/sequences.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>

namespace fa2::reference {
namespace {

constexpr std::int64_t kRows = 16;  ///< query rows per unit of work
constexpr std::int64_t kKeys = 64;  ///< keys per inner loop

/// The key that lies opposite of query i: with both sequences' ends aligned, or their beginnings.
std::int64_t diagonal(const AttentionProblem& p, std::int64_t i) {
  return p.mask == MaskKind::causal_top_left ? i : i + p.seqlen_k - p.seqlen_q;
}

/// Query i sees the keys [begin, end).
struct KeyRange {
  std::int64_t begin, end;
};

KeyRange visible_keys(const AttentionProblem& p, std::int64_t i) {
  KeyRange keys{0, p.seqlen_k};
  if (p.mask != MaskKind::none) keys.end = diagonal(p, i) + 1;
  if (p.window_left) keys.begin = diagonal(p, i) - *p.window_left;
  if (p.window_right) keys.end = std::min(keys.end, diagonal(p, i) + *p.window_right + 1);
  keys.begin = std::clamp<std::int64_t>(keys.begin, 0, p.seqlen_k);
  keys.end = std::clamp<std::int64_t>(keys.end, keys.begin, p.seqlen_k);
  return keys;
}

/// Arithmetic of the reference: nothing is rounded on the way.
struct Exact {
  using Real = double;
  double score(double s) const { return s; }
  double probability(double p, double sum) const { return p / sum; }
  double output(double o, double /*sum*/) const { return o; }
};

/// Arithmetic of the unfused baseline: float32 inside an operation, its result stored in 16 bits.
struct Unfused {
  using Real = float;
  DType dtype;
  float score(float s) const { return round_to(s, dtype); }
  float probability(float p, float sum) const { return round_to(p / sum, dtype); }
  float output(float o, float /*sum*/) const { return round_to(o, dtype); }
};

/// Arithmetic of the fused baseline: a float32 score, a probability rounded once and an output normalised
/// last.
struct Fused {
  using Real = double;
  DType dtype;
  double score(double s) const { return static_cast<float>(s); }
  double probability(double p, double /*sum*/) const { return round_to(static_cast<float>(p), dtype); }
  double output(double o, double sum) const { return round_to(static_cast<float>(o / sum), dtype); }
};

struct Inputs {
  const AttentionProblem& problem;  ///< normalized
  const Tensor& q;
  const Tensor& k;
  const Tensor& v;
  const ScoreRule& rule;
};

/// Rows [first, first + count) of one batch and query head. The buffers live as long as their thread.
template <class Arithmetic>
class RowBlock {
  using Real = typename Arithmetic::Real;

 public:
  RowBlock(const Inputs& in, Arithmetic arithmetic) : in_(in), arithmetic_(arithmetic) {}

  /// o: rows of head_dim_v; lse: one per row, may be null.
  void compute(std::int64_t batch, std::int64_t head, std::int64_t first, float* o, double* lse,
               double empty_row_lse) {
    const AttentionProblem& p = in_.problem;
    const std::int64_t count = std::min(kRows, p.seqlen_q - first);
    const std::int64_t kv_head = head / (p.heads_q / p.heads_kv);
    begin_ = visible_keys(p, first).begin;
    keys_ = std::max<std::int64_t>(visible_keys(p, first + count - 1).end - begin_, 0);
    scores_.resize(static_cast<std::size_t>(count * keys_));
    sums_.resize(static_cast<std::size_t>(count));
    if (keys_ > 0) {
      multiply(in_.q.values.data() + offset(in_.q, batch, head, first), count,
               in_.k.values.data() + offset(in_.k, batch, kv_head, begin_));
    }
    const double sink =
        p.sinks ? double{in_.rule.numbers.sinks[head]} : -std::numeric_limits<double>::infinity();
    for (std::int64_t r = 0; r < count; ++r) {
      score(batch, head, first, r);
      const double row_lse = softmax(r, visible_keys(p, first + r), sink, empty_row_lse);
      if (lse != nullptr) lse[r] = row_lse;
    }
    const float* v = keys_ > 0 ? in_.v.values.data() + offset(in_.v, batch, kv_head, begin_) : nullptr;
    weigh(v, first, count, o);
  }

 private:
  static std::size_t offset(const Tensor& t, std::int64_t batch, std::int64_t head, std::int64_t row) {
    return static_cast<std::size_t>(((batch * t.heads + head) * t.rows + row) * t.dim);
  }
  Real* row(std::int64_t r) { return scores_.data() + r * keys_; }

  /// Q K^T. K goes through a transposed block so that the inner loop runs over neighbouring keys.
  void multiply(const float* q, std::int64_t count, const float* k) {
    const std::int64_t dim = in_.problem.head_dim;
    transposed_.resize(static_cast<std::size_t>(dim * kKeys));
    for (std::int64_t j0 = 0; j0 < keys_; j0 += kKeys) {
      const std::int64_t width = std::min(kKeys, keys_ - j0);
      for (std::int64_t j = 0; j < width; ++j) {
        for (std::int64_t d = 0; d < dim; ++d) {
          transposed_[static_cast<std::size_t>(d * kKeys + j)] = static_cast<Real>(k[(j0 + j) * dim + d]);
        }
      }
      for (std::int64_t r = 0; r < count; ++r) {
        Real sums[kKeys] = {};
        for (std::int64_t d = 0; d < dim; ++d) {
          const Real factor = static_cast<Real>(q[r * dim + d]);
          const Real* keys = transposed_.data() + d * kKeys;
          for (std::int64_t j = 0; j < kKeys; ++j) sums[j] += factor * keys[j];
        }
        for (std::int64_t j = 0; j < width; ++j) row(r)[j0 + j] = sums[j];
      }
    }
  }

  /// Products of row r become scores.
  void score(std::int64_t batch, std::int64_t head, std::int64_t first, std::int64_t r) {
    for (std::int64_t j = 0; j < keys_; ++j) {
      Real& s = row(r)[j];
      s = arithmetic_.score(static_cast<Real>(
          score_of(in_.problem, in_.rule, batch, head, first + r, begin_ + j, static_cast<double>(s))));
    }
  }

  /// Scores of row r become probabilities. Returns the row's log-sum-exp.
  double softmax(std::int64_t r, const KeyRange& keys, double sink, double empty_row_lse) {
    sums_[static_cast<std::size_t>(r)] = 1;
    const bool has_sink = sink > -std::numeric_limits<double>::infinity();
    if (keys.begin == keys.end) return has_sink ? sink : empty_row_lse;
    Real* const p = row(r) + (keys.begin - begin_);
    Real* const end = row(r) + (keys.end - begin_);
    const Real maximum = std::max(*std::max_element(p, end), static_cast<Real>(sink));
    Real sum = has_sink ? std::exp(static_cast<Real>(sink) - maximum) : Real{0};
    for (Real* s = p; s != end; ++s) sum += * s = std::exp(*s - maximum);
    for (Real* s = p; s != end; ++s) *s = arithmetic_.probability(*s, sum);
    sums_[static_cast<std::size_t>(r)] = sum;
    return static_cast<double>(maximum) + std::log(static_cast<double>(sum));
  }

  /// O = P V, unseen keys skipped: whatever lies there must not matter.
  void weigh(const float* v, std::int64_t first, std::int64_t count, float* o) {
    const std::int64_t dim = in_.problem.head_dim_v;
    outputs_.assign(static_cast<std::size_t>(count * dim), 0);
    for (std::int64_t j0 = 0; j0 < keys_; j0 += kKeys) {  // the block of V stays in cache for all rows
      for (std::int64_t r = 0; r < count; ++r) {
        const KeyRange keys = visible_keys(in_.problem, first + r);
        const std::int64_t end = std::min(j0 + kKeys, keys.end - begin_);
        Real* sums = outputs_.data() + r * dim;
        for (std::int64_t j = std::max(j0, keys.begin - begin_); j < end; ++j) {
          const Real p = row(r)[j];
          for (std::int64_t d = 0; d < dim; ++d) sums[d] += p * static_cast<Real>(v[j * dim + d]);
        }
      }
    }
    for (std::int64_t i = 0; i < count * dim; ++i) {
      o[i] = static_cast<float>(arithmetic_.output(outputs_[static_cast<std::size_t>(i)],
                                                   sums_[static_cast<std::size_t>(i / dim)]));
    }
  }

  const Inputs in_;
  const Arithmetic arithmetic_;
  std::int64_t begin_ = 0, keys_ = 0;  ///< the first key that some row of the block sees, and their number
  std::vector<Real> transposed_, scores_, sums_, outputs_;
};

/// Runs `worker` on every core; each takes indices from the shared counter until there are none left.
void on_all_cores(std::int64_t count, const std::function<void(std::atomic<std::int64_t>& next)>& worker) {
  std::atomic<std::int64_t> next{0};
  const std::int64_t cores = std::max<std::int64_t>(1, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (std::int64_t i = 1; i < std::min(cores, count); ++i) threads.emplace_back(worker, std::ref(next));
  worker(next);
  for (std::thread& thread : threads) thread.join();
}

template <class Arithmetic>
Result compute(const Inputs& in, Arithmetic arithmetic, EmptyRowLse empty_row_lse) {
  const AttentionProblem& p = in.problem;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double empty = empty_row_lse == EmptyRowLse::positive_infinity ? kInfinity : -kInfinity;
  Result result;
  result.o = {p.batch, p.heads_q, p.seqlen_q, p.head_dim_v, {}};
  result.o.values.resize(static_cast<std::size_t>(p.batch * p.heads_q * p.seqlen_q * p.head_dim_v));
  result.lse.resize(static_cast<std::size_t>(p.batch * p.heads_q * p.seqlen_q));

  const std::int64_t blocks = (p.seqlen_q + kRows - 1) / kRows, count = p.batch * p.heads_q * blocks;
  on_all_cores(count, [&](std::atomic<std::int64_t>& next) {
    RowBlock<Arithmetic> block(in, arithmetic);
    for (std::int64_t i = next++; i < count; i = next++) {
      const std::int64_t first = (blocks - 1 - i % blocks) * kRows,
                         head = i / blocks;  // longest first under a causal mask
      const std::int64_t row = head * p.seqlen_q + first;
      block.compute(head / p.heads_q, head % p.heads_q, first, result.o.values.data() + row * p.head_dim_v,
                    result.lse.data() + row, empty);
    }
  });
  return result;
}

/// What sequence `b` alone is computed by.
ScoreRule rule_of(const AttentionProblem& p, const ScoreRule& rule, std::int64_t b) {
  ScoreRule alone = rule;
  if (p.alibi && rule.numbers.alibi_slopes_per_batch) alone.numbers.alibi_slopes += b * p.heads_q;
  alone.numbers.alibi_slopes_per_batch = false;
  return alone;
}

void put(const Result& part, const SequenceRows& rows, Result& all) {
  const std::int64_t dim = all.o.dim;
  for (std::int64_t h = 0; h < all.o.heads; ++h) {
    const std::int64_t row = (rows.entry * all.o.heads + h) * all.o.rows + rows.begin, from = h * rows.count;
    std::copy_n(part.o.values.begin() + from * dim, rows.count * dim, all.o.values.begin() + row * dim);
    std::copy_n(part.lse.begin() + from, rows.count, all.lse.begin() + row);
  }
}

/// Sequences one after the other, as batches of one.
template <class Arithmetic>
Result compute_each(const Inputs& in, Arithmetic arithmetic, EmptyRowLse empty_row_lse) {
  const AttentionProblem& p = in.problem;
  const Entries entries = q_entries(p);
  const auto rows = static_cast<std::size_t>(entries.count * p.heads_q * entries.rows);
  Result result;
  result.o = {entries.count, p.heads_q, entries.rows, p.head_dim_v, {}};
  result.o.values.assign(rows * static_cast<std::size_t>(p.head_dim_v), std::nanf(""));
  result.lse.assign(rows, std::nan(""));
  std::int64_t b = 0;
  for (const Sequence& sequence : sequences_of(p, in.rule.numbers)) {
    const AttentionProblem alone = problem_of(p, sequence);
    const ScoreRule rule = rule_of(p, in.rule, b++);
    const Tensor q = rows_of(in.q, sequence.q), k = rows_of(in.k, sequence.k), v = rows_of(in.v, sequence.k);
    put(compute(Inputs{alone, q, k, v, rule}, arithmetic, empty_row_lse), sequence.q, result);
  }
  return result;
}

template <class Arithmetic>
Result attention(const AttentionProblem& full, const Tensor& q, const Tensor& k, const Tensor& v,
                 const ScoreRule& rule, Arithmetic arithmetic,
                 EmptyRowLse empty_row_lse = EmptyRowLse::positive_infinity) {
  const Inputs in{full, q, k, v, rule};
  return full.varlen ? compute_each(in, arithmetic, empty_row_lse) : compute(in, arithmetic, empty_row_lse);
}

}  // namespace

bool is_visible(const AttentionProblem& problem, std::int64_t i, std::int64_t j) {
  const KeyRange keys = visible_keys(problem, i);
  return j >= keys.begin && j < keys.end;
}

double score_of(const AttentionProblem& p, const ScoreRule& rule, std::int64_t batch, std::int64_t head,
                std::int64_t i, std::int64_t j, double product) {
  const AttentionArgs& numbers = rule.numbers;
  double score = product * rule.scale;
  if (p.softcap) score = double{numbers.softcap} * std::tanh(score / double{numbers.softcap});
  if (p.alibi) {
    const std::int64_t first = numbers.alibi_slopes_per_batch ? batch * p.heads_q : 0;
    const std::int64_t distance = std::abs(i + p.seqlen_k - p.seqlen_q - j);
    score -= double{numbers.alibi_slopes[first + head]} * static_cast<double>(distance);
  }
  return score;
}

Result attention_f64(const AttentionProblem& problem, const Tensor& q, const Tensor& k, const Tensor& v,
                     const ScoreRule& rule, EmptyRowLse empty_row_lse) {
  return attention(problem.normalized(), q, k, v, rule, Exact{}, empty_row_lse);
}

Tensor attention_baseline(const AttentionProblem& problem, const Tensor& q, const Tensor& k, const Tensor& v,
                          const ScoreRule& rule) {
  return attention(problem.normalized(), q, k, v, rule, Unfused{problem.dtype}).o;
}

Tensor attention_fused_baseline(const AttentionProblem& problem, const Tensor& q, const Tensor& k,
                                const Tensor& v, const ScoreRule& rule) {
  return attention(problem.normalized(), q, k, v, rule, Fused{problem.dtype}).o;
}

}  // namespace fa2::reference
