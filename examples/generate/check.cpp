// Compares logits and tokens with those of full attention.
#include "check.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "../model/program.h"

namespace example {
namespace {

constexpr double kLogitsDifference = 0.005;  // five times the error of bfloat16
constexpr float kTie = 0.02f;                // probabilities differ by 2%, so bfloat16 may change their order

/// Returns the logits of full attention, one row per generated token of sequence `b`.
Matrix<float> full_logits(Model<float>& model, Shape shape, const Generated& generated, std::size_t b) {
  Tokens tokens = generated.sequences[b];
  tokens.pop_back();  // no logits follow the last token
  shape.batch = 1;
  shape.context = static_cast<std::int64_t>(tokens.size());
  model.replace_attention([&] { return std::make_unique<MaterialisedAttention<float>>(shape); });
  const Matrix<float> all = model.logits(tokens);
  Matrix<float> result(generated.logits[b].rows, all.columns);
  std::copy(all.row(all.rows - result.rows), all.row(all.rows), result.row(0));
  return result;
}

std::string description(std::size_t sequence, std::int64_t step, int fa2, int full, float margin) {
  char text[200];
  std::snprintf(text, sizeof text,
                "sequence %zu, step %lld: token %d, with full attention %d, whose logit is larger by %.4g",
                sequence, static_cast<long long>(step), fa2, full, static_cast<double>(margin));
  return text;
}

}  // namespace

Check check(Model<float>& model, const Shape& shape, const Generated& generated) {
  Check result;
  for (std::size_t b = 0; b < generated.sequences.size(); ++b) {
    const Matrix<float>& fa2 = generated.logits[b];
    const Matrix<float> full = full_logits(model, shape, generated, b);
    const double difference = relative_distance(fa2, full);
    require_at_most(kLogitsDifference, "the difference of a sequence's logits", difference,
                    result.complaints);
    result.logits_difference = std::max(result.logits_difference, difference);
    for (std::int64_t step = 0; step < fa2.rows; ++step) {
      const int token = best_token(fa2, step), expected = best_token(full, step);
      if (token == expected) continue;
      const float margin = full.row(step)[expected] - full.row(step)[token];
      (margin <= kTie ? result.ties : result.complaints)
          .push_back(description(b, step, token, expected, margin));
    }
  }
  return result;
}

}  // namespace example
