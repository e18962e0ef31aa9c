// Every rank: its own tokens forward and backward, the mean of all ranks' gradients, and the same update.
#include "rank_training.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "../model/driver.h"
#include "../model/program.h"
#include "../model/text.h"
#include "../model/training.h"
#include "ranks.h"
#include "sharded_attention.h"

namespace example {
namespace {

/// Replaces the values by their mean over ranks. Every rank adds in rank order, so that all get the same bits and replicas stay equal.
void average(fa2::Communicator& communicator, std::vector<float>& values) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  std::vector<float> all(ranks * values.size());
  communicator.all_gather(values.data(), values.size() * sizeof(float), all.data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    float sum = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) sum += all[rank * values.size() + i];
    values[i] = sum / static_cast<float>(ranks);
  }
}

/// A rank's replica, and its part of a step.
class RankTraining {
 public:
  RankTraining(const Shape& shape, fa2::Communicator& communicator, bool on_gpu, const Schedule& schedule)
      : communicator_(communicator),
        shard_(shape, communicator, on_gpu),
        model_(shard_.own, schedule.seed, [&] { return std::make_unique<ShardedAttention>(shard_); }),
        training_(model_, schedule.steps) {
    // No rank may exchange before all have allocated: with GPUs of one process an allocation may wait for other GPUs' kernels.
    std::vector<float> nothing(1);
    average(communicator_, nothing);
  }

  /// Takes one step on a batch of all tokens and returns the loss of all before it.
  float step(const Batch& batch) {
    std::vector<float> means = {model_.loss_and_gradients(shard_.tokens_of(batch))};
    for (const Parameter<float>* parameter : model_.parameters())
      means.insert(means.end(), parameter->gradient.values.begin(), parameter->gradient.values.end());
    average(communicator_, means);  // ranks have equally many tokens, so these are means over all tokens
    const float* next = means.data() + 1;
    for (Parameter<float>* parameter : model_.parameters()) {
      std::vector<float>& gradient = parameter->gradient.values;
      std::copy_n(next, gradient.size(), gradient.data());
      next += gradient.size();
    }
    training_.update();
    return means.front();
  }

  Model<float>& model() { return model_; }

 private:
  fa2::Communicator& communicator_;
  Shard shard_;
  Model<float> model_;
  Training training_;
};

/// The same training without ranks, which rank 0 does next to its own.
struct OneRankTraining {
  OneRankTraining(const Shape& shape, const AttentionPlans& plans, const Schedule& schedule)
      : model(shape, schedule.seed, [&] { return std::make_unique<Fa2Attention>(shape, plans); }),
        training(model, schedule.steps) {}

  Model<float> model;
  Training training;
};

}  // namespace

void require_ranks(int ranks, const Shape& shape, bool on_gpu) {
  const std::string given = "--ranks = " + std::to_string(ranks);
  if (shape.context % (2 * ranks) != 0)
    throw std::runtime_error(given + ", must divide " + std::to_string(shape.context / 2) +
                             ", half of a sequence's tokens: zigzag gives each rank two equal chunks");
  const int gpus = on_gpu ? gpu_count() : ranks;
  if (ranks > gpus)
    throw std::runtime_error(given + ", must be at most " + std::to_string(gpus) +
                             ", the machine's number of GPUs: give fewer, or set FA2_DEVICE=interpreter");
}

Comparison train_on_ranks(int ranks, const Shape& shape, const AttentionPlans& one_rank,
                          const std::vector<std::uint8_t>& text, const Schedule& schedule,
                          const AfterStep& after_step) {
  Comparison done{{std::to_string(ranks) + " ranks"}, {"1 rank"}};
  run_ranks(ranks, one_rank.on_gpu, [&](fa2::Communicator& communicator) {
    const Workers workers(static_cast<unsigned>(ranks));
    std::optional<OneRankTraining> whole;
    if (communicator.rank() == 0) whole.emplace(shape, one_rank, schedule);
    RankTraining sharded(shape, communicator, one_rank.on_gpu, schedule);
    Random random(schedule.seed);  // every rank draws the same batches
    for (int step = 0; step < schedule.steps; ++step) {
      const Batch batch = random_batch(text, shape, random);
      const float loss = sharded.step(batch);
      if (!whole) continue;
      done.tested.losses.push_back(loss);
      done.reference.losses.push_back(whole->training.step(batch));
      if (step == 0) done.gradient_difference = gradient_difference(sharded.model(), whole->model);
      after_step(done);
    }
  });
  return done;
}

std::vector<std::string> complaints_about_ranks(const Comparison& done) {
  std::vector<std::string> complaints;
  require_at_most(1e-2, "the difference of the first gradients", done.gradient_difference, complaints);
  require_at_most(1e-2, "the largest difference of the losses", done.largest_loss_difference(), complaints);
  return complaints;
}

}  // namespace example
