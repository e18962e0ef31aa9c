// The example's model: its gradients agree with finite differences, in float64. Rotary angles of sharded tokens.
#include <doctest/doctest.h>
#include <examples/model/model.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace {

constexpr example::Shape kShape = {
    .layers = 2, .heads_q = 4, .heads_kv = 2, .head_dim = 4, .hidden = 6, .context = 5, .batch = 2};

example::Batch random_bytes(example::Random& random) {
  example::Batch batch;
  for (std::int64_t i = 0; i < kShape.tokens(); ++i) {
    batch.tokens.push_back(static_cast<std::uint8_t>(random() % 4));
    batch.targets.push_back(static_cast<std::uint8_t>(random() % example::kBytes));
  }
  return batch;
}

}  // namespace

TEST_CASE("train: gradients of every parameter agree with finite differences") {
  example::Model<double> model(
      kShape, 1, [] { return std::make_unique<example::MaterialisedAttention<double>>(kShape); });
  example::Random random(2);
  const example::Batch batch = random_bytes(random);
  for (example::Parameter<double>* parameter : model.parameters()) {
    model.loss_and_gradients(batch);
    const std::vector<double> gradient = parameter->gradient.values;
    double largest = 0;
    for (int i = 0; i < 8; ++i) {
      // In an embedding, only entries that the batch uses.
      const std::size_t at = random() % std::min<std::size_t>(gradient.size(), 4 * kShape.width());
      double& value = parameter->value.values[at];
      const double kept = value, step = 1e-5;
      value = kept + step;
      const double above = model.loss_and_gradients(batch);
      value = kept - step;
      const double below = model.loss_and_gradients(batch);
      value = kept;
      CHECK_MESSAGE(gradient[at] == doctest::Approx((above - below) / (2 * step)).epsilon(1e-6).scale(0.01),
                    parameter->name);
      largest = std::max(largest, std::abs(gradient[at]));
    }
    CHECK_MESSAGE(largest > 1e-4, parameter->name);  // otherwise nothing was compared
  }
}

TEST_CASE("train: a shard's tokens have the rotary angles of their positions in the sequence") {
  example::Shape own = kShape;
  own.context = 2;
  const example::Rotary<double> whole(kShape), shard(own, {1, 4});
  for (std::int64_t j = 0; j < kShape.head_dim / 2; ++j) {
    CHECK(shard.sines().row(0)[j] == whole.sines().row(1)[j]);
    CHECK(shard.sines().row(1)[j] == whole.sines().row(4)[j]);
    CHECK(shard.cosines().row(1)[j] == whole.cosines().row(4)[j]);
  }
}
