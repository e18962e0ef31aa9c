// One training with two kinds of attention: fa2's and the materialised one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fa2_attention.h"

namespace example {

/// The results of both trainings so far.
struct Comparison {
  std::vector<float> fa2;      ///< loss of each step with fa2's attention in bfloat16; nats per byte
  std::vector<float> float32;  ///< loss of each step with materialised attention in float32; nats per byte
  /// The largest |a - b| / |b| of a parameter's gradient in the first step, where all weights are still equal.
  double gradient_difference = 0;

  float loss_difference() const { return fa2.back() - float32.back(); }
};

struct Schedule {
  int steps = 200;
  std::uint64_t seed = 1;  ///< for weights and batches
};

/// Trains both models from the same weights on the same batches. Calls `after_step` with the results after each step.
Comparison train_both(const Shape& shape, const AttentionPlans& plans, const std::vector<std::uint8_t>& text,
                      const Schedule& schedule, const std::function<void(const Comparison&)>& after_step);

/// Returns why the two trainings differ too much, or learn nothing; empty if all is well.
std::vector<std::string> complaints_about(const Comparison& done);

}  // namespace example
