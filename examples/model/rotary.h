// Rotary position embedding (arXiv 2104.09864).
#pragma once

#include <cmath>
#include <numeric>
#include <vector>

#include "matrix.h"
#include "shape.h"

namespace example {

/// Rotates, in every query and key head of QKV, the columns (j, j + head_dim / 2) by an angle that grows with the token's position
/// and falls with j. A gradient is rotated back by the same angle.
template <class Real>
class Rotary {
 public:
  /// The positions of a sequence's tokens are 0, 1, ...
  explicit Rotary(const Shape& shape) : Rotary(shape, first_positions(shape.context)) {}

  /// `positions`: of a sequence's tokens, in the order of its rows; as many as shape.context; the same for all sequences.
  Rotary(const Shape& shape, const std::vector<std::int64_t>& positions)
      : shape_(shape), cosines_(shape.context, shape.head_dim / 2), sines_(cosines_) {
    for (std::int64_t i = 0; i < cosines_.rows; ++i) {
      for (std::int64_t j = 0; j < cosines_.columns; ++j) {
        const double share = static_cast<double>(j) / static_cast<double>(cosines_.columns);
        const double position = static_cast<double>(positions[static_cast<std::size_t>(i)]);
        const double angle = position * std::pow(10000.0, -share);
        cosines_.row(i)[j] = static_cast<Real>(std::cos(angle));
        sines_.row(i)[j] = static_cast<Real>(std::sin(angle));
      }
    }
  }

  void rotate(Matrix<Real>& qkv) const { turn(qkv, 1); }
  void rotate_back(Matrix<Real>& d_qkv) const { turn(d_qkv, -1); }

  /// Return the cosines and sines of the angles: one row per token of a sequence, one column per pair.
  const Matrix<Real>& cosines() const { return cosines_; }
  const Matrix<Real>& sines() const { return sines_; }

 private:
  static std::vector<std::int64_t> first_positions(std::int64_t count) {
    std::vector<std::int64_t> positions(static_cast<std::size_t>(count));
    std::iota(positions.begin(), positions.end(), std::int64_t{0});
    return positions;
  }

  void turn(Matrix<Real>& qkv, Real direction) const {
    const std::int64_t half = shape_.head_dim / 2;
    parallel_for(qkv.rows, [&](std::int64_t i) {
      const Real *const cosine = cosines_.row(i % shape_.context), *const sine =
                                                                       sines_.row(i % shape_.context);
      for (std::int64_t head = 0; head < shape_.heads_q + shape_.heads_kv; ++head) {
        Real *const left = qkv.row(i) + head * shape_.head_dim, *const right = left + half;
        for (std::int64_t j = 0; j < half; ++j) {
          const Real x = left[j], y = right[j], s = direction * sine[j];
          left[j] = x * cosine[j] - y * s;
          right[j] = x * s + y * cosine[j];
        }
      }
    });
  }

  Shape shape_;
  Matrix<Real> cosines_, sines_;
};

}  // namespace example
