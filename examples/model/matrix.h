// Dense matrices and their product, which all layers use.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "parallel.h"

namespace example {

using Random = std::mt19937_64;

/// A row-major matrix. A new one holds zeros.
template <class Real>
struct Matrix {
  Matrix() = default;
  Matrix(std::int64_t row_count, std::int64_t column_count)
      : rows(row_count), columns(column_count), values(static_cast<std::size_t>(row_count * column_count)) {}

  Real* row(std::int64_t i) { return values.data() + i * columns; }
  const Real* row(std::int64_t i) const { return values.data() + i * columns; }

  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<Real> values;
};

/// Returns a matrix with elements from N(0, deviation^2).
template <class Real>
Matrix<Real> random_matrix(std::int64_t rows, std::int64_t columns, double deviation, Random& random) {
  Matrix<Real> matrix(rows, columns);
  std::normal_distribution<double> normal(0, deviation);
  for (Real& value : matrix.values) value = static_cast<Real>(normal(random));
  return matrix;
}

template <class Real>
Matrix<Real> transposed(const Matrix<Real>& a) {
  Matrix<Real> result(a.columns, a.rows);
  parallel_for(result.rows, [&](std::int64_t i) {
    for (std::int64_t j = 0; j < a.rows; ++j) result.row(i)[j] = a.row(j)[i];
  });
  return result;
}

/// Returns a b. Each element is summed in ascending k, so any number of threads gives the same bits.
template <class Real>
Matrix<Real> product(const Matrix<Real>& a, const Matrix<Real>& b) {
  constexpr std::int64_t kRows = 4;  // rows that use each row of b while it is in the cache
  Matrix<Real> result(a.rows, b.columns);
  parallel_for((a.rows + kRows - 1) / kRows, [&](std::int64_t block) {
    const std::int64_t begin = block * kRows, end = std::min(begin + kRows, a.rows);
    for (std::int64_t k = 0; k < a.columns; ++k) {
      for (std::int64_t i = begin; i < end; ++i) {
        const Real factor = a.row(i)[k];
        const Real* from = b.row(k);
        Real* to = result.row(i);
        for (std::int64_t j = 0; j < b.columns; ++j) to[j] += factor * from[j];
      }
    }
  });
  return result;
}

/// Returns |a - b| / |b| over all elements.
template <class Real>
double relative_distance(const Matrix<Real>& a, const Matrix<Real>& b) {
  double differences = 0, squares = 0;
  for (std::size_t i = 0; i < b.values.size(); ++i) {
    differences += std::pow(static_cast<double>(a.values[i]) - static_cast<double>(b.values[i]), 2);
    squares += std::pow(static_cast<double>(b.values[i]), 2);
  }
  return std::sqrt(differences / squares);
}

template <class Real>
void add(Matrix<Real>& to, const Matrix<Real>& from) {
  for (std::size_t i = 0; i < to.values.size(); ++i) to.values[i] += from.values[i];
}

}  // namespace example
