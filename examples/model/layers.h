// The layers of a transformer, except attention. forward() keeps what backward() needs. backward() takes the gradient of the
// output, stores the gradients of the layer's parameters, and returns the gradient of the input.
#pragma once

#include <cmath>
#include <string>
#include <utility>

#include "matrix.h"

namespace example {

template <class Real>
struct Parameter {
  std::string name;
  Matrix<Real> value;
  Matrix<Real> gradient;
};

/// y = x W.
template <class Real>
class Linear {
 public:
  Linear(std::string name, std::int64_t in, std::int64_t out, Random& random)
      : weight{std::move(name),
               random_matrix<Real>(in, out, 1 / std::sqrt(static_cast<double>(in)), random),
               {}} {}

  Matrix<Real> forward(Matrix<Real> x) {
    x_ = std::move(x);
    return product(x_, weight.value);
  }
  Matrix<Real> backward(const Matrix<Real>& d_y) {
    weight.gradient = product(transposed(x_), d_y);
    return product(d_y, transposed(weight.value));
  }

  Parameter<Real> weight;

 private:
  Matrix<Real> x_;
};

/// y = gain * x / rms(x), row by row (arXiv 1910.07467).
template <class Real>
class RmsNorm {
 public:
  RmsNorm(std::string name, std::int64_t width) : gain{std::move(name), Matrix<Real>(1, width), {}} {
    std::fill(gain.value.values.begin(), gain.value.values.end(), Real(1));
  }

  Matrix<Real> forward(const Matrix<Real>& x) {
    normalized_ = x;
    inverse_rms_.resize(static_cast<std::size_t>(x.rows));
    Matrix<Real> y(x.rows, x.columns);
    for (std::int64_t i = 0; i < x.rows; ++i) {
      Real squares = 0;
      for (std::int64_t j = 0; j < x.columns; ++j) squares += x.row(i)[j] * x.row(i)[j];
      const Real inverse = 1 / std::sqrt(squares / static_cast<Real>(x.columns) + Real(1e-5));
      inverse_rms_[static_cast<std::size_t>(i)] = inverse;
      for (std::int64_t j = 0; j < x.columns; ++j) {
        normalized_.row(i)[j] *= inverse;
        y.row(i)[j] = gain.value.row(0)[j] * normalized_.row(i)[j];
      }
    }
    return y;
  }

  Matrix<Real> backward(const Matrix<Real>& d_y) {
    gain.gradient = Matrix<Real>(1, d_y.columns);
    Matrix<Real> d_x(d_y.rows, d_y.columns);
    for (std::int64_t i = 0; i < d_y.rows; ++i) {
      const Real* normalized = normalized_.row(i);
      Real along = 0;  // the gradient along x, which normalising removes
      for (std::int64_t j = 0; j < d_y.columns; ++j) {
        gain.gradient.row(0)[j] += d_y.row(i)[j] * normalized[j];
        d_x.row(i)[j] = d_y.row(i)[j] * gain.value.row(0)[j];
        along += d_x.row(i)[j] * normalized[j] / static_cast<Real>(d_y.columns);
      }
      const Real inverse = inverse_rms_[static_cast<std::size_t>(i)];
      for (std::int64_t j = 0; j < d_y.columns; ++j)
        d_x.row(i)[j] = inverse * (d_x.row(i)[j] - along * normalized[j]);
    }
    return d_x;
  }

  Parameter<Real> gain;

 private:
  Matrix<Real> normalized_;
  std::vector<Real> inverse_rms_;
};

/// y = silu(gate) * up (arXiv 2002.05202). A row holds gate in its left half and up in its right half.
template <class Real>
class SwiGlu {
 public:
  Matrix<Real> forward(Matrix<Real> x) {
    x_ = std::move(x);
    Matrix<Real> y(x_.rows, x_.columns / 2);
    parallel_for(y.rows, [&](std::int64_t i) {
      const Real *gate = x_.row(i), *up = gate + y.columns;
      for (std::int64_t j = 0; j < y.columns; ++j) y.row(i)[j] = gate[j] * sigmoid(gate[j]) * up[j];
    });
    return y;
  }

  Matrix<Real> backward(const Matrix<Real>& d_y) const {
    Matrix<Real> d_x(x_.rows, x_.columns);
    parallel_for(d_y.rows, [&](std::int64_t i) {
      const Real *gate = x_.row(i), *up = gate + d_y.columns, *d = d_y.row(i);
      Real *d_gate = d_x.row(i), *d_up = d_gate + d_y.columns;
      for (std::int64_t j = 0; j < d_y.columns; ++j) {
        const Real s = sigmoid(gate[j]);
        d_gate[j] = d[j] * up[j] * s * (1 + gate[j] * (1 - s));
        d_up[j] = d[j] * gate[j] * s;
      }
    });
    return d_x;
  }

 private:
  static Real sigmoid(Real x) { return 1 / (1 + std::exp(-x)); }

  Matrix<Real> x_;
};

/// Maps each byte to a row of the table.
template <class Real>
class Embedding {
 public:
  Embedding(std::string name, std::int64_t entries, std::int64_t width, Random& random)
      : table{std::move(name), random_matrix<Real>(entries, width, 1, random), {}} {}

  Matrix<Real> forward(const std::vector<std::uint8_t>& tokens) {
    tokens_ = tokens;
    Matrix<Real> y(static_cast<std::int64_t>(tokens.size()), table.value.columns);
    for (std::int64_t i = 0; i < y.rows; ++i) std::copy_n(table.value.row(token(i)), y.columns, y.row(i));
    return y;
  }
  void backward(const Matrix<Real>& d_y) {
    table.gradient = Matrix<Real>(table.value.rows, table.value.columns);
    for (std::int64_t i = 0; i < d_y.rows; ++i) {
      for (std::int64_t j = 0; j < d_y.columns; ++j) table.gradient.row(token(i))[j] += d_y.row(i)[j];
    }
  }

  Parameter<Real> table;

 private:
  std::int64_t token(std::int64_t i) const { return tokens_[static_cast<std::size_t>(i)]; }

  std::vector<std::uint8_t> tokens_;
};

/// Returns the mean over rows of -log softmax(logits)[target]. Replaces the logits by their gradient, (softmax - one-hot) / rows.
template <class Real>
Real cross_entropy(Matrix<Real>& logits, const std::vector<std::uint8_t>& targets) {
  std::vector<Real> losses(targets.size());
  parallel_for(logits.rows, [&](std::int64_t i) {
    Real* const row = logits.row(i);
    const std::size_t at = static_cast<std::size_t>(i);
    const Real most = *std::max_element(row, row + logits.columns), target = row[targets[at]];
    Real sum = 0;
    for (std::int64_t j = 0; j < logits.columns; ++j) {
      row[j] = std::exp(row[j] - most);
      sum += row[j];
    }
    losses[at] = std::log(sum) + most - target;
    for (std::int64_t j = 0; j < logits.columns; ++j) row[j] /= sum * static_cast<Real>(logits.rows);
    row[targets[at]] -= 1 / static_cast<Real>(logits.rows);
  });
  double sum = 0;
  for (const Real loss : losses) sum += static_cast<double>(loss);
  return static_cast<Real>(sum / static_cast<double>(losses.size()));
}

}  // namespace example
