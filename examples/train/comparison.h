// The same training with two kinds of attention.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fa2_attention.h"

namespace example {

/// What both trainings did so far.
struct Comparison {
  std::vector<float> fa2;      ///< the loss of each step in nats a byte, with fa2's attention in bfloat16
  std::vector<float> float32;  ///< with materialised attention in float32
  /// |a - b| / |b| of the gradients of the first step, where all weights are still the same: the largest of all parameters.
  double gradient_difference = 0;

  float loss_difference() const { return fa2.back() - float32.back(); }
};

struct Schedule {
  int steps = 200;
  std::uint64_t seed = 1;  ///< of weights and batches
};

/// From the same weights, on the same batches. Calls `after_step` with what there is by then.
Comparison train_both(const Shape& shape, const AttentionPlans& plans, const std::vector<std::uint8_t>& text,
                      const Schedule& schedule, const std::function<void(const Comparison&)>& after_step);

/// Why the two are not the same training, or no training; empty if all is well.
std::vector<std::string> complaints_about(const Comparison& done);

}  // namespace example
