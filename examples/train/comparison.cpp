// Two models, step by step.
#include "comparison.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "../model/adam.h"
#include "../model/model.h"
#include "../model/text.h"

namespace example {
namespace {

/// A model, and what improves it.
class Training {
 public:
  Training(const Shape& shape, std::uint64_t seed, const MakeAttention<float>& make_attention)
      : model_(shape, seed, make_attention), adam_(model_.parameters()) {}

  /// The loss before it.
  float step(const Batch& batch, float rate) {
    const float loss = model_.loss_and_gradients(batch);
    adam_.step(rate);
    return loss;
  }
  std::vector<Parameter<float>*> parameters() { return model_.parameters(); }

 private:
  Model<float> model_;
  Adam<float> adam_;
};

/// Rises over the first tenth of the steps, then falls to 0.
float rate_of(int step, int steps) {
  const float done = (static_cast<float>(step) + 1) / (static_cast<float>(steps) + 1);
  return 3e-3f * std::min(10 * done, (1 - done) / 0.9f);
}

double distance(const Matrix<float>& a, const Matrix<float>& b) {
  double squares = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i)
    squares += std::pow(static_cast<double>(a.values[i]) - static_cast<double>(b.values[i]), 2);
  return std::sqrt(squares);
}

double gradient_difference(Training& fa2, Training& float32) {
  double most = 0;
  const auto a = fa2.parameters(), b = float32.parameters();
  for (std::size_t i = 0; i < b.size(); ++i) {
    const Matrix<float>&gradient = b[i]->gradient, zero(gradient.rows, gradient.columns);
    most = std::max(most, distance(a[i]->gradient, gradient) / distance(gradient, zero));
  }
  return most;
}

/// "NAME is VALUE, must be at most LIMIT", unless it is.
void require_at_most(double limit, const char* name, double value, std::vector<std::string>& complaints) {
  if (value <= limit) return;
  char text[200];
  std::snprintf(text, sizeof text, "%s is %.4g, must be at most %.4g", name, value, limit);
  complaints.emplace_back(text);
}

}  // namespace

Comparison train_both(const Shape& shape, const AttentionPlans& plans, const std::vector<std::uint8_t>& text,
                      const Schedule& schedule, const std::function<void(const Comparison&)>& after_step) {
  Training fa2(shape, schedule.seed, [&] { return std::make_unique<Fa2Attention>(shape, plans); });
  Training float32(shape, schedule.seed,
                   [&] { return std::make_unique<MaterialisedAttention<float>>(shape); });
  Random random(schedule.seed);
  Comparison done;
  for (int step = 0; step < schedule.steps; ++step) {
    const Batch batch = random_batch(text, shape, random);
    const float rate = rate_of(step, schedule.steps);
    done.fa2.push_back(fa2.step(batch, rate));
    done.float32.push_back(float32.step(batch, rate));
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
  require_at_most(0.8, "the loss at the end over that of the first step", done.fa2.back() / done.fa2.front(),
                  complaints);
  return complaints;
}

}  // namespace example
