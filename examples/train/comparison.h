// One training with two kinds of attention: fa2's and the materialised one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "../model/model.h"
#include "fa2_attention.h"

namespace example {

/// A training's name, and its loss in each step; nats per byte.
struct Curve {
  std::string name;
  std::vector<float> losses = {};
};

/// The results of both trainings so far.
struct Comparison {
  Curve tested;
  Curve reference;
  /// The largest |a - b| / |b| of a parameter's gradient in the first step, where all weights are still equal.
  double gradient_difference = 0;

  /// Returns the last step's, tested minus reference.
  float loss_difference() const { return tested.losses.back() - reference.losses.back(); }
  /// Returns the largest distance in any step.
  double largest_loss_difference() const;
};

struct Schedule {
  int steps = 200;
  std::uint64_t seed = 1;  ///< for weights and batches
};

using AfterStep = std::function<void(const Comparison&)>;

/// Trains fa2's attention in bfloat16 and materialised attention in float32, from the same weights on the same batches. Calls
/// `after_step` with the results after each step.
Comparison train_both(const Shape& shape, const AttentionPlans& plans, const std::vector<std::uint8_t>& text,
                      const Schedule& schedule, const AfterStep& after_step);

/// Returns Comparison::gradient_difference of the models' gradients.
double gradient_difference(Model<float>& tested, Model<float>& reference);

/// Returns why the two trainings differ too much, or learn nothing; empty if all is well.
std::vector<std::string> complaints_about(const Comparison& done);

}  // namespace example
