// Gradients of attention on the CPU (FlashAttention-2, arXiv 2307.08691, section 2.2), one query head after
// the other.
#include <reference/all_cores.h>
#include <reference/gradients.h>
#include <reference/row_block.h>
#include <reference/sequences.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <vector>

namespace fa2::reference {
namespace {

/// Gradients with respect to the forward's results.
struct Upstream {
  const Tensor& d_out;
  const std::vector<double>* d_lse;  ///< or null
};

Tensor filled(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t dim, float value) {
  return {batch, heads, rows, dim,
          std::vector<float>(static_cast<std::size_t>(batch * heads * rows * dim), value)};
}

/// Gradients of one key/value head in a batch entry, and of the query heads that share it. The buffers live
/// as long as their thread.
template <class Arithmetic>
class HeadGroup {
 public:
  HeadGroup(const Inputs& in, const Upstream& upstream, Arithmetic arithmetic, Gradients& out)
      : in_(in), upstream_(upstream), arithmetic_(arithmetic), block_(in, arithmetic), out_(out) {}

  /// Computes them. Adds one number per query head to d_sinks.
  void compute(std::int64_t batch, std::int64_t kv_head, double* d_sinks) {
    const AttentionProblem& p = in_.problem;
    const std::int64_t group = p.heads_q / p.heads_kv;
    dk_.start(p.seqlen_k * p.head_dim);
    dv_.start(p.seqlen_k * p.head_dim_v);
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      for (std::int64_t first = 0; first < p.seqlen_q; first += kRows)
        d_sinks[head] += add_rows(batch, head, first);
      dk_.end_head(static_cast<Real>(in_.rule.scale), arithmetic_);
      dv_.end_head(1, arithmetic_);
    }
    dk_.store(arithmetic_, out_.dk.values.data() + offset_of(out_.dk, batch, kv_head, 0));
    dv_.store(arithmetic_, out_.dv.values.data() + offset_of(out_.dv, batch, kv_head, 0));
  }

 private:
  using Real = typename Arithmetic::Real;

  struct Rows {
    const float *q, *d_out;  ///< first row of a block
  };

  /// A gradient that is summed over the rows of a query head, then over the heads of a group.
  struct Sum {
    std::vector<Real> head, group;

    void start(std::int64_t size) {
      head.assign(static_cast<std::size_t>(size), 0);
      group.assign(static_cast<std::size_t>(size), 0);
    }
    void end_head(Real scale, Arithmetic arithmetic) {
      for (std::size_t i = 0; i < head.size(); ++i) group[i] += arithmetic.stored(scale * head[i]);
      std::fill(head.begin(), head.end(), Real{0});
    }
    void store(Arithmetic arithmetic, float* gradient) const {
      for (std::size_t i = 0; i < group.size(); ++i)
        gradient[i] = static_cast<float>(arithmetic.stored(group[i]));
    }
  };

  /// Computes rows from `first` on: writes dQ, adds to dK and dV. Returns what they add to their sink's
  /// gradient.
  double add_rows(std::int64_t batch, std::int64_t head, std::int64_t first) {
    const AttentionProblem& p = in_.problem;
    const std::int64_t kv_head = head / (p.heads_q / p.heads_kv);
    block_.compute(batch, head, first);
    const Rows rows{row_of(in_.q, batch, head, first), row_of(upstream_.d_out, batch, head, first)};
    dq_.assign(static_cast<std::size_t>(block_.count() * p.head_dim), 0);
    multiply(rows.d_out, block_.count(), row_of(in_.v, batch, kv_head, block_.begin()), block_.keys(),
             p.head_dim_v, d_scores_);
    weigh(block_, in_.v, batch, kv_head, arithmetic_, o_);
    double d_sink = 0;
    for (std::int64_t r = 0; r < block_.count(); ++r)
      d_sink += to_d_scores(r, delta_of(rows, r) - d_lse_of(batch, head, first + r));
    add_products(rows, row_of(in_.k, batch, kv_head, block_.begin()));
    float* const dq = out_.dq.values.data() + offset_of(out_.dq, batch, head, first);
    const Real scale = static_cast<Real>(in_.rule.scale);
    for (std::size_t i = 0; i < dq_.size(); ++i)
      dq[i] = static_cast<float>(arithmetic_.stored(scale * dq_[i]));
    return d_sink;
  }

  /// Returns the sum of dO * O over a row that sees a key. It equals the sum of P * dP.
  Real delta_of(const Rows& rows, std::int64_t r) const {
    const KeyRange keys = block_.keys_of(r);
    if (keys.begin == keys.end) return 0;
    const std::int64_t dim = in_.problem.head_dim_v;
    Real delta = 0;
    for (std::int64_t i = r * dim; i < (r + 1) * dim; ++i)
      delta += o_[static_cast<std::size_t>(i)] * static_cast<Real>(rows.d_out[i]);
    return delta;
  }

  /// Replaces row r of dP by dS. Returns what it adds to the sink's gradient.
  double to_d_scores(std::int64_t r, Real delta) {
    const Real* const p = block_.probabilities(r);
    const Real* const products = block_.products(r);
    Real* const d_scores = d_scores_.data() + r * block_.keys();
    const Real* const factors = block_.factors(r);
    const KeyRange keys = block_.keys_of(r);
    for (std::int64_t j = keys.begin; j < keys.end; ++j) {
      const double slope =
          score_slope_of(in_.problem, in_.rule, block_.position(r, j), static_cast<double>(products[j]));
      const Real d_probability = arithmetic_.stored(factors[j] * arithmetic_.stored(d_scores[j]));
      d_scores[j] = arithmetic_.stored(p[j] * (d_probability - delta) * static_cast<Real>(slope));
      if (in_.rule.functions.take_gradient && p[j] != 0) give_gradient(r, j, p[j] * (d_probability - delta));
    }
    const Real sink = arithmetic_.stored(static_cast<Real>(block_.sink_probability(r)));
    return static_cast<double>(arithmetic_.stored(-sink * delta));
  }

  void give_gradient(std::int64_t r, std::int64_t j, Real d_modified) const {
    const ScorePosition at = block_.position(r, j);
    const double product = static_cast<double>(block_.products(r)[j]);
    in_.rule.functions.take_gradient(score_before_texts(in_.problem, in_.rule, at, product), at,
                                     static_cast<double>(arithmetic_.stored(d_modified)));
  }

  /// Computes dQ += dS K, dK += dS^T Q, dV += P^T dO, without unseen keys, whose memory may hold anything. k:
  /// the block's first key.
  void add_products(const Rows& rows, const float* k) {
    const std::int64_t dim = in_.problem.head_dim, dim_v = in_.problem.head_dim_v, keys = block_.keys();
    Real* const dk = dk_.head.data() + block_.begin() * dim;
    Real* const dv = dv_.head.data() + block_.begin() * dim_v;
    for (std::int64_t j0 = 0; j0 < keys; j0 += kKeys) {  // their rows of K, dK and dV stay in cache
      for (std::int64_t r = 0; r < block_.count(); ++r) {
        const KeyRange seen = block_.keys_of(r);
        const std::int64_t end = std::min(j0 + kKeys, seen.end);
        for (std::int64_t j = std::max(j0, seen.begin); j < end; ++j) {
          const Real d_score = d_scores_[static_cast<std::size_t>(r * keys + j)];
          add(d_score, k + j * dim, dim, dq_.data() + r * dim);
          add(d_score, rows.q + r * dim, dim, dk + j * dim);
          add(block_.probabilities(r)[j] * block_.factors(r)[j], rows.d_out + r * dim_v, dim_v,
              dv + j * dim_v);
        }
      }
    }
  }

  static const float* row_of(const Tensor& t, std::int64_t batch, std::int64_t head, std::int64_t row) {
    return t.values.data() + offset_of(t, batch, head, row);
  }
  Real d_lse_of(std::int64_t batch, std::int64_t head, std::int64_t row) const {
    if (upstream_.d_lse == nullptr) return 0;
    const AttentionProblem& p = in_.problem;
    return static_cast<Real>(
        (*upstream_.d_lse)[static_cast<std::size_t>((batch * p.heads_q + head) * p.seqlen_q + row)] *
        lse_unit(p.lse_base));
  }

  const Inputs in_;
  const Upstream upstream_;
  const Arithmetic arithmetic_;
  RowBlock<Arithmetic> block_;
  Gradients& out_;
  Sum dk_, dv_;
  std::vector<Real> o_, dq_, d_scores_;  ///< of one block
};

/// Returns gradients of the inputs' shapes, every element `value`; d_sinks are zeros.
Gradients blank(const Inputs& in, float value) {
  const auto like = [&](const Tensor& t) { return filled(t.batch, t.heads, t.rows, t.dim, value); };
  const std::int64_t sinks = in.problem.sinks ? in.problem.heads_q : 0;
  return {like(in.q), like(in.k), like(in.v), std::vector<double>(static_cast<std::size_t>(sinks))};
}

void add_to(std::vector<double>& sums, const double* terms) {
  for (std::size_t h = 0; h < sums.size(); ++h) sums[h] += terms[h];
}

template <class Arithmetic>
Gradients compute(const Inputs& in, const Upstream& upstream, Arithmetic arithmetic) {
  const AttentionProblem& p = in.problem;
  Gradients gradients = blank(in, 0);
  std::vector<double> d_sinks(static_cast<std::size_t>(p.batch * p.heads_q));  // one per batch entry and head
  const std::int64_t count = p.batch * p.heads_kv;
  on_all_cores(count, [&](std::atomic<std::int64_t>& next) {
    HeadGroup<Arithmetic> group(in, upstream, arithmetic, gradients);
    for (std::int64_t i = next++; i < count; i = next++)
      group.compute(i / p.heads_kv, i % p.heads_kv, d_sinks.data() + i / p.heads_kv * p.heads_q);
  });
  for (std::int64_t b = 0; b < p.batch; ++b) add_to(gradients.dsinks, d_sinks.data() + b * p.heads_q);
  return gradients;
}

/// Computes one sequence after the other, as batches of one.
template <class Arithmetic>
Gradients compute_each(const Inputs& in, const Upstream& upstream, Arithmetic arithmetic) {
  Gradients gradients = blank(in, std::nanf(""));
  std::int64_t b = 0;
  for (const Sequence& sequence : sequences_of(in.problem, in.rule.numbers)) {
    const AttentionProblem alone = problem_of(in.problem, sequence);
    const ScoreRule rule = rule_of(in.problem, sequence, in.rule, b++);
    const Tensor q = rows_of(in.q, sequence.q), k = rows_of(in.k, sequence.k), v = rows_of(in.v, sequence.k),
                 d_out = rows_of(upstream.d_out, sequence.q);
    std::vector<double> d_lse;
    if (upstream.d_lse != nullptr) d_lse = rows_of(*upstream.d_lse, upstream.d_out, sequence.q);
    const Gradients part = compute(Inputs{alone, q, k, v, rule},
                                   Upstream{d_out, upstream.d_lse != nullptr ? &d_lse : nullptr}, arithmetic);
    put_rows(part.dq, sequence.q, gradients.dq);
    put_rows(part.dk, sequence.k, gradients.dk);
    put_rows(part.dv, sequence.k, gradients.dv);
    add_to(gradients.dsinks, part.dsinks.data());
  }
  return gradients;
}

template <class Arithmetic>
Gradients gradients(const AttentionProblem& problem, const Tensor& q, const Tensor& k, const Tensor& v,
                    const ScoreRule& rule, const Upstream& upstream, Arithmetic arithmetic) {
  const AttentionProblem normalized = problem.normalized();
  const Inputs in{normalized, q, k, v, rule};
  return problem.varlen ? compute_each(in, upstream, arithmetic) : compute(in, upstream, arithmetic);
}

}  // namespace

Gradients gradients_f64(const AttentionProblem& problem, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& d_out, const std::vector<double>* d_lse, const ScoreRule& rule) {
  return gradients(problem, q, k, v, rule, Upstream{d_out, d_lse}, Exact{});
}

Gradients gradients_baseline(const AttentionProblem& problem, const Tensor& q, const Tensor& k,
                             const Tensor& v, const Tensor& d_out, const std::vector<double>* d_lse,
                             const ScoreRule& rule) {
  return gradients(problem, q, k, v, rule, Upstream{d_out, d_lse}, Unfused{problem.dtype});
}

}  // namespace fa2::reference
