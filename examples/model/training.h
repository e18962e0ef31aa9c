// Trains a model.
#pragma once

#include <algorithm>

#include "adam.h"
#include "model.h"

namespace example {

/// Trains a model, which must outlive it.
class Training {
 public:
  Training(Model<float>& model, int steps) : model_(model), adam_(model.parameters()), steps_(steps) {}

  /// Takes one step and returns the loss before it.
  float step(const Batch& batch) {
    const float loss = model_.loss_and_gradients(batch);
    update();
    return loss;
  }

  /// Updates the weights by the gradients that the model's parameters hold.
  void update() {
    adam_.step(rate());
    ++done_;
  }

 private:
  /// Returns the learning rate, which rises over the first tenth of the steps and then falls to 0.
  float rate() const {
    const float done = (static_cast<float>(done_) + 1) / (static_cast<float>(steps_) + 1);
    return 3e-3f * std::min(10 * done, (1 - done) / 0.9f);
  }

  Model<float>& model_;
  Adam<float> adam_;
  int steps_, done_ = 0;
};

}  // namespace example
