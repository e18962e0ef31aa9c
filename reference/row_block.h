// Probabilities of a few rows, in float64 or in the rounded steps of a 16-bit framework. Attention and its
// gradients share them.
#pragma once

#include <core/float_bits.h>
#include <reference/attention_reference.h>
#include <reference/dropout.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace fa2::reference {

constexpr std::int64_t kRows = 16;  ///< query rows per unit of work
constexpr std::int64_t kKeys = 64;  ///< keys per inner loop

/// Query i sees the keys [begin, end).
struct KeyRange {
  std::int64_t begin, end;
};
KeyRange visible_keys(const AttentionProblem& problem, const QueryPieces& pieces, std::int64_t i);

/// Arithmetic of the reference: no intermediate result is rounded.
struct Exact {
  using Real = double;
  double stored(double x) const { return x; }
  double score(double s) const { return s; }
  double probability(double p, double sum) const { return p / sum; }
  double output(double o, double /*sum*/) const { return o; }
};

/// Arithmetic of the unfused baseline: float32 inside an operation, and results stored in 16 bits.
struct Unfused {
  using Real = float;
  DType dtype;
  float stored(float x) const { return round_to(x, dtype); }
  float score(float s) const { return stored(s); }
  float probability(float p, float sum) const { return stored(p / sum); }
  float output(float o, float /*sum*/) const { return stored(o); }
};

struct Inputs {
  const AttentionProblem& problem;  ///< normalized, without varlen
  const Tensor& q;
  const Tensor& k;
  const Tensor& v;
  const ScoreRule& rule;
};

inline std::size_t offset_of(const Tensor& t, std::int64_t batch, std::int64_t head, std::int64_t row) {
  return static_cast<std::size_t>(((batch * t.heads + head) * t.rows + row) * t.dim);
}

/// Computes sums += factor * row.
template <class Real>
void add(Real factor, const float* row, std::int64_t dim, Real* sums) {
  for (std::int64_t d = 0; d < dim; ++d) sums[d] += factor * static_cast<Real>(row[d]);
}

/// Computes products (rows, keys) = A (rows, dim) times the transpose of B (keys, dim). B passes through a
/// transposed block, so that the inner loop runs over adjacent keys.
template <class Real>
void multiply(const float* a, std::int64_t rows, const float* b, std::int64_t keys, std::int64_t dim,
              std::vector<Real>& products) {
  products.resize(static_cast<std::size_t>(rows * keys));
  std::vector<Real> transposed(static_cast<std::size_t>(dim * kKeys));
  for (std::int64_t j0 = 0; j0 < keys; j0 += kKeys) {
    const std::int64_t width = std::min(kKeys, keys - j0);
    for (std::int64_t j = 0; j < width; ++j) {
      for (std::int64_t d = 0; d < dim; ++d)
        transposed[static_cast<std::size_t>(d * kKeys + j)] = static_cast<Real>(b[(j0 + j) * dim + d]);
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      Real sums[kKeys] = {};
      for (std::int64_t d = 0; d < dim; ++d) {
        const Real factor = static_cast<Real>(a[r * dim + d]);
        const Real* neighbours = transposed.data() + d * kKeys;
        for (std::int64_t j = 0; j < kKeys; ++j) sums[j] += factor * neighbours[j];
      }
      std::copy_n(sums, width, products.data() + r * keys + j0);
    }
  }
}

/// Probabilities of rows [first, first + count()) in one batch entry and query head. The buffers live as long
/// as their thread.
template <class Arithmetic>
class RowBlock {
 public:
  using Real = typename Arithmetic::Real;

  RowBlock(const Inputs& in, Arithmetic arithmetic)
      : in_(in), arithmetic_(arithmetic), mask_(in.rule.numbers.dropout) {}

  void compute(std::int64_t batch, std::int64_t head, std::int64_t first) {
    const AttentionProblem& p = in_.problem;
    const std::int64_t kv_head = head / (p.heads_q / p.heads_kv);
    batch_ = batch;
    head_ = head;
    first_ = first;
    count_ = std::min(kRows, p.seqlen_q - first);
    begin_ = keys_of_query(first).begin;
    keys_ = std::max<std::int64_t>(keys_of_query(first + count_ - 1).end - begin_, 0);
    sink_ = p.sinks ? double{in_.rule.numbers.sinks[head]} : -kInfinity;
    rows_.assign(static_cast<std::size_t>(count_), {});
    multiply(in_.q.values.data() + offset_of(in_.q, batch, head, first), count_,
             in_.k.values.data() + offset_of(in_.k, batch, kv_head, begin_), keys_, p.head_dim, products_);
    probabilities_.resize(static_cast<std::size_t>(count_ * keys_));
    for (std::int64_t r = 0; r < count_; ++r) {
      score(r);
      softmax(r);
      draw(in_.rule.first_batch * p.heads_q + batch * p.heads_q + head, r);
    }
  }

  std::int64_t count() const { return count_; }  ///< number of rows
  std::int64_t begin() const { return begin_; }  ///< first key that some row sees
  std::int64_t keys() const {
    return keys_;
  }  ///< number of keys from begin() to the last that some row
     ///< sees

  /// Returns the keys that row r sees, counted from begin().
  KeyRange keys_of(std::int64_t r) const {
    const KeyRange keys = keys_of_query(first_ + r);
    return {keys.begin - begin_, keys.end - begin_};
  }
  /// Returns whether row r does not see key begin() + j although it is in keys_of(r): its page is missing, or a text hides it.
  bool is_hidden(std::int64_t r, std::int64_t j) const {
    const std::vector<bool>& missing = in_.rule.missing_keys;
    if (!missing.empty() && missing[static_cast<std::size_t>(begin_ + j)]) return true;
    return in_.rule.functions.mask && !in_.rule.functions.mask(position(r, j));
  }
  /// Returns whether row r sees a key.
  bool sees_keys(std::int64_t r) const {
    const KeyRange keys = keys_of(r);
    for (std::int64_t j = keys.begin; j < keys.end; ++j)
      if (!is_hidden(r, j)) return true;
    return false;
  }
  /// Returns the position of row r's score of key begin() + j.
  ScorePosition position(std::int64_t r, std::int64_t j) const {
    const AttentionProblem& p = in_.problem;
    return {in_.rule.first_batch + batch_,
            head_,
            number(r),
            begin_ + j,
            p.query_pieces ? p.seqlen_k : p.seqlen_q,
            p.seqlen_k};
  }
  /// Returns the probabilities of row r from key begin() on. Those of unseen keys are undefined.
  const Real* probabilities(std::int64_t r) const { return probabilities_.data() + r * keys_; }
  /// Returns the factors of row r's probabilities under dropout: 0, or 1 / (fraction kept).
  const Real* factors(std::int64_t r) const { return factors_.data() + r * keys_; }
  /// Returns row r of Q K^T.
  const Real* products(std::int64_t r) const { return products_.data() + r * keys_; }
  /// Returns the sum of row r's probabilities before normalisation; 1 without a key.
  Real sum(std::int64_t r) const { return rows_[static_cast<std::size_t>(r)].sum; }
  double lse(std::int64_t r, double empty_row_lse) const {
    if (has_sink() || sees_keys(r)) return rows_[static_cast<std::size_t>(r)].lse;
    return empty_row_lse;
  }
  /// Returns the largest score of the keys that row r sees; -infinity without a key.
  double largest(std::int64_t r) const { return rows_[static_cast<std::size_t>(r)].largest; }
  double sink_probability(std::int64_t r) const {
    return has_sink() ? std::exp(sink_ - rows_[static_cast<std::size_t>(r)].lse) : 0;
  }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  struct Row {
    Real sum = 1;
    double lse = 0;
    double largest = -kInfinity;
  };

  bool has_sink() const { return sink_ > -kInfinity; }

  KeyRange keys_of_query(std::int64_t i) const {
    return visible_keys(in_.problem, in_.rule.numbers.query_pieces, i);
  }

  /// Returns row r's number in its sequence.
  std::int64_t number(std::int64_t r) const {
    return in_.problem.query_pieces ? query_position(in_.rule.numbers.query_pieces, first_ + r) : first_ + r;
  }

  /// Turns row r's products into scores.
  void score(std::int64_t r) {
    Real* const scores = probabilities_.data() + r * keys_;
    for (std::int64_t j = 0; j < keys_; ++j) {
      const double product = static_cast<double>(products(r)[j]);
      const double score =
          is_hidden(r, j) ? -kInfinity : score_of(in_.problem, in_.rule, position(r, j), product);
      scores[j] = arithmetic_.score(static_cast<Real>(score));
    }
  }

  void draw(std::int64_t head, std::int64_t r) {
    factors_.resize(probabilities_.size(), Real{1});
    if (!in_.problem.dropout) return;
    for (std::int64_t j = 0; j < keys_; ++j) {
      const bool is_kept = mask_.keeps(head, number(r), begin_ + j);
      factors_[static_cast<std::size_t>(r * keys_ + j)] =
          static_cast<Real>(is_kept ? 1 / mask_.share_kept() : 0);
    }
  }

  /// Turns row r's scores into probabilities.
  void softmax(std::int64_t r) {
    const KeyRange keys = keys_of(r);
    auto& [sum, lse, largest] = rows_[static_cast<std::size_t>(r)];
    lse = sink_;
    Real* const p = probabilities_.data() + r * keys_ + keys.begin;
    Real* const end = std::max(p, p + (keys.end - keys.begin));
    if (!sees_keys(r)) {
      std::fill(p, end, Real{0});
      return;
    }
    largest = static_cast<double>(*std::max_element(p, end));
    const Real maximum = std::max(static_cast<Real>(largest), static_cast<Real>(sink_));
    sum = has_sink() ? std::exp(static_cast<Real>(sink_) - maximum) : Real{0};
    for (Real* s = p; s != end; ++s) sum += * s = std::exp(*s - maximum);
    for (Real* s = p; s != end; ++s) *s = arithmetic_.probability(*s, sum);
    lse = static_cast<double>(maximum) + std::log(static_cast<double>(sum));
  }

  const Inputs in_;
  const Arithmetic arithmetic_;
  std::int64_t batch_ = 0, head_ = 0, first_ = 0, count_ = 0, begin_ = 0, keys_ = 0;
  double sink_ = 0;
  const DropoutMask mask_;
  std::vector<Real> products_, probabilities_, factors_;
  std::vector<Row> rows_;
};

/// Computes O = P V for a block's rows, without unseen keys, whose memory may hold anything.
template <class Arithmetic>
void weigh(const RowBlock<Arithmetic>& block, const Tensor& v, std::int64_t batch, std::int64_t kv_head,
           Arithmetic arithmetic, std::vector<typename Arithmetic::Real>& o) {
  const std::int64_t dim = v.dim;
  const float* const first = v.values.data() + offset_of(v, batch, kv_head, block.begin());
  o.assign(static_cast<std::size_t>(block.count() * dim), 0);
  for (std::int64_t j0 = 0; j0 < block.keys(); j0 += kKeys) {  // the block of V stays in cache for all rows
    for (std::int64_t r = 0; r < block.count(); ++r) {
      const KeyRange keys = block.keys_of(r);
      const std::int64_t end = std::min(j0 + kKeys, keys.end);
      for (std::int64_t j = std::max(j0, keys.begin); j < end; ++j) {
        if (block.is_hidden(r, j)) continue;
        add(block.probabilities(r)[j] * block.factors(r)[j], first + j * dim, dim, o.data() + r * dim);
      }
    }
  }
  for (std::int64_t i = 0; i < block.count() * dim; ++i) {
    auto& x = o[static_cast<std::size_t>(i)];
    x = arithmetic.output(x, block.sum(i / dim));
  }
}

}  // namespace fa2::reference
