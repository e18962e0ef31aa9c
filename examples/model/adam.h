// The optimiser Adam (arXiv 1412.6980).
#pragma once

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "layers.h"

namespace example {

/// Updates parameters, which must outlive it, by their gradients.
template <class Real>
class Adam {
 public:
  explicit Adam(std::vector<Parameter<Real>*> parameters) : parameters_(std::move(parameters)) {
    for (const Parameter<Real>* parameter : parameters_) means_.emplace_back(parameter->value.values.size());
    squares_ = means_;
  }

  void step(Real rate) {
    ++steps_;
    parallel_for(static_cast<std::int64_t>(parameters_.size()),
                 [&](std::int64_t i) { update(static_cast<std::size_t>(i), rate); });
  }

 private:
  void update(std::size_t parameter, Real rate) {
    constexpr Real kMean = Real(0.9), kSquare = Real(0.99), kEpsilon = Real(1e-8);
    const Real mean_share = 1 - std::pow(kMean, static_cast<Real>(steps_));
    const Real square_share = 1 - std::pow(kSquare, static_cast<Real>(steps_));
    std::vector<Real>& values = parameters_[parameter]->value.values;
    std::vector<Real>& mean = means_[parameter];
    std::vector<Real>& square = squares_[parameter];
    const std::vector<Real>& gradient = parameters_[parameter]->gradient.values;
    for (std::size_t i = 0; i < values.size(); ++i) {
      mean[i] = kMean * mean[i] + (1 - kMean) * gradient[i];
      square[i] = kSquare * square[i] + (1 - kSquare) * gradient[i] * gradient[i];
      values[i] -= rate * (mean[i] / mean_share) / (std::sqrt(square[i] / square_share) + kEpsilon);
    }
  }

  std::vector<Parameter<Real>*> parameters_;
  std::vector<std::vector<Real>> means_,
      squares_;  ///< per parameter: running means of its gradient and of the square
  int steps_ = 0;
};

}  // namespace example
