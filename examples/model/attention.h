// The interface of attention in the model, and an implementation with scores and probabilities as whole matrices.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

#include "matrix.h"
#include "rotary.h"
#include "shape.h"

namespace example {

/// Causal attention with grouped heads, which rotates queries and keys by their positions. A row is a token. A row of QKV has query
/// heads, then key heads, then value heads; a row of O has query heads. Each layer has its own, because forward() keeps what
/// backward() needs.
template <class Real>
class Attention {
 public:
  virtual ~Attention() = default;
  virtual Matrix<Real> forward(Matrix<Real> qkv) = 0;
  /// Returns the gradient of QKV, given that of O.
  virtual Matrix<Real> backward(const Matrix<Real>& d_out) = 0;
};

template <class Real>
class MaterialisedAttention final : public Attention<Real> {
 public:
  explicit MaterialisedAttention(const Shape& shape) : shape_(shape), rotary_(shape) {}

  Matrix<Real> forward(Matrix<Real> qkv) override {
    qkv_ = std::move(qkv);
    rotary_.rotate(qkv_);
    p_.assign(static_cast<std::size_t>(shape_.batch * shape_.heads_q), {});
    Matrix<Real> o(shape_.tokens(), shape_.width());
    for_each_group([&](std::int64_t sequence, std::int64_t head_kv) {
      const Matrix<Real> k_t = transposed(part(qkv_, sequence, k_head(head_kv)));
      const Matrix<Real> v = part(qkv_, sequence, v_head(head_kv));
      for_each_query_head(head_kv, [&](std::int64_t head) {
        Matrix<Real>& p = probabilities(sequence, head);
        p = product(part(qkv_, sequence, head), k_t);
        causal_softmax(p);
        add_part(product(p, v), o, sequence, head);
      });
    });
    return o;
  }

  Matrix<Real> backward(const Matrix<Real>& d_out) override {
    Matrix<Real> d_qkv(qkv_.rows, qkv_.columns);
    for_each_group([&](std::int64_t sequence, std::int64_t head_kv) {
      const Matrix<Real> k = part(qkv_, sequence, k_head(head_kv));
      const Matrix<Real> v_t = transposed(part(qkv_, sequence, v_head(head_kv)));
      for_each_query_head(head_kv, [&](std::int64_t head) {
        const Matrix<Real>& p = probabilities(sequence, head);
        const Matrix<Real> d = part(d_out, sequence, head);
        Matrix<Real> d_s = product(d, v_t);  // dP until to_score_gradient()
        to_score_gradient(p, d_s);
        add_part(product(d_s, k), d_qkv, sequence, head);
        add_part(product(transposed(d_s), part(qkv_, sequence, head)), d_qkv, sequence, k_head(head_kv));
        add_part(product(transposed(p), d), d_qkv, sequence, v_head(head_kv));
      });
    });
    rotary_.rotate_back(d_qkv);
    return d_qkv;
  }

 private:
  Real scale() const { return 1 / std::sqrt(static_cast<Real>(shape_.head_dim)); }
  std::int64_t k_head(std::int64_t head_kv) const { return shape_.heads_q + head_kv; }
  std::int64_t v_head(std::int64_t head_kv) const { return shape_.heads_q + shape_.heads_kv + head_kv; }
  Matrix<Real>& probabilities(std::int64_t sequence, std::int64_t head) {
    return p_[static_cast<std::size_t>(sequence * shape_.heads_q + head)];
  }

  /// Calls body(sequence, head_kv) for each group, in parallel: groups write different columns or rows.
  template <class Body>
  void for_each_group(const Body& body) const {
    parallel_for(shape_.batch * shape_.heads_kv,
                 [&](std::int64_t i) { body(i / shape_.heads_kv, i % shape_.heads_kv); });
  }
  template <class Body>
  void for_each_query_head(std::int64_t head_kv, const Body& body) const {
    const std::int64_t group = shape_.heads_q / shape_.heads_kv;
    for (std::int64_t head = head_kv * group; head < (head_kv + 1) * group; ++head) body(head);
  }

  /// Returns the rows of a sequence and the columns of a head.
  Matrix<Real> part(const Matrix<Real>& all, std::int64_t sequence, std::int64_t head) const {
    Matrix<Real> result(shape_.context, shape_.head_dim);
    for (std::int64_t i = 0; i < result.rows; ++i)
      std::copy_n(all.row(sequence * shape_.context + i) + head * shape_.head_dim, result.columns,
                  result.row(i));
    return result;
  }
  void add_part(const Matrix<Real>& part, Matrix<Real>& all, std::int64_t sequence, std::int64_t head) const {
    for (std::int64_t i = 0; i < part.rows; ++i) {
      Real* const to = all.row(sequence * shape_.context + i) + head * shape_.head_dim;
      for (std::int64_t j = 0; j < part.columns; ++j) to[j] += part.row(i)[j];
    }
  }

  /// Replaces Q K^T by P. Row i sees keys 0 .. i.
  void causal_softmax(Matrix<Real>& s) const {
    for (std::int64_t i = 0; i < s.rows; ++i) {
      Real *const row = s.row(i), *const end = row + i + 1;
      const Real most = *std::max_element(row, end);
      Real sum = 0;
      for (Real* x = row; x != end; ++x) {
        *x = std::exp(scale() * (*x - most));
        sum += *x;
      }
      for (Real* x = row; x != end; ++x) *x /= sum;
      std::fill(end, row + s.columns, Real(0));
    }
  }
  /// Replaces dP by the gradient of Q K^T: scale P (dP - rowsum(P dP)).
  void to_score_gradient(const Matrix<Real>& p, Matrix<Real>& d_p) const {
    for (std::int64_t i = 0; i < p.rows; ++i) {
      Real delta = 0;
      for (std::int64_t j = 0; j < p.columns; ++j) delta += p.row(i)[j] * d_p.row(i)[j];
      for (std::int64_t j = 0; j < p.columns; ++j)
        d_p.row(i)[j] = scale() * p.row(i)[j] * (d_p.row(i)[j] - delta);
    }
  }

  Shape shape_;
  Rotary<Real> rotary_;
  Matrix<Real> qkv_;
  std::vector<Matrix<Real>> p_;  ///< one matrix per sequence and query head
};

}  // namespace example
