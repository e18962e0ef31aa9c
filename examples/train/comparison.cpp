// Trains two models step by step.
#include "comparison.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "../model/program.h"
#include "../model/text.h"
#include "../model/training.h"

namespace example {

double Comparison::largest_loss_difference() const {
  float most = 0;
  for (std::size_t i = 0; i < reference.losses.size(); ++i)
    most = std::max(most, std::abs(tested.losses[i] - reference.losses[i]));
  return static_cast<double>(most);
}

double gradient_difference(Model<float>& tested, Model<float>& reference) {
  double most = 0;
  const auto a = tested.parameters(), b = reference.parameters();
  for (std::size_t i = 0; i < b.size(); ++i) {
    most = std::max(most, relative_distance(a[i]->gradient, b[i]->gradient));
  }
  return most;
}

Comparison train_both(const Shape& shape, const AttentionPlans& plans, const std::vector<std::uint8_t>& text,
                      const Schedule& schedule, const AfterStep& after_step) {
  Model<float> fa2(shape, schedule.seed, [&] { return std::make_unique<Fa2Attention>(shape, plans); });
  Model<float> float32(shape, schedule.seed,
                       [&] { return std::make_unique<MaterialisedAttention<float>>(shape); });
  Training fa2_training(fa2, schedule.steps), float32_training(float32, schedule.steps);
  Random random(schedule.seed);
  Comparison done{{"fa2"}, {"float32"}};
  for (int step = 0; step < schedule.steps; ++step) {
    const Batch batch = random_batch(text, shape, random);
    done.tested.losses.push_back(fa2_training.step(batch));
    done.reference.losses.push_back(float32_training.step(batch));
    if (step == 0) done.gradient_difference = gradient_difference(fa2, float32);
    after_step(done);
  }
  return done;
}

std::vector<std::string> complaints_about(const Comparison& done) {
  std::vector<std::string> complaints;
  require_at_most(1e-2, "the difference of the first gradients", done.gradient_difference, complaints);
  require_at_most(1e-2, "the difference of the losses at the end", std::abs(done.loss_difference()),
                  complaints);
  require_at_most(0.8, "the loss at the end over that of the first step",
                  done.tested.losses.back() / done.tested.losses.front(), complaints);
  return complaints;
}

}  // namespace example
