// Computes sequences again and compares.
#include "check.h"

#include <algorithm>
#include <cstdio>

#include "../model/program.h"
#include "step_attention.h"
#include "whole_attention.h"

namespace example {
namespace {

constexpr double kLogitsDifference = 0.005;
constexpr float kTie = 0.02f;             // probabilities differ by 2%, so bfloat16 may change their order
constexpr std::uint64_t kOtherSeed = 99;  // pages in another order than the engine's

std::string name_of(const Sequence& sequence) {
  return "sequence " + std::to_string(sequence.request.id);
}

/// Computes sequences one at a time, in the chunks of their traces.
class Alone {
 public:
  Alone(fa2::Context& context, const ModelShape& shape, EngineLimits limits, ThinModel& model)
      : limits_(with_batch_of_one(limits)),
        model_(model),
        attention_(context, shape, limits_, true, DecodeMode::direct),
        pool_(limits_.pages, kOtherSeed) {}

  void compare(const Sequence& served, const Trace& trace, Check& check) {
    Sequence sequence(served.request);
    for (std::int64_t i = 0; i < limits_.max_pages(); ++i) sequence.pages.push_back(pool_.take());
    for (const TracedPart& part : trace.parts) {
      const auto end = static_cast<std::size_t>(part.begin + part.tokens);
      sequence.cached = part.begin;
      sequence.tokens.assign(served.tokens.begin(), served.tokens.begin() + part.begin + part.tokens);
      Step step;
      step.parts = {{&sequence, part.tokens}};
      const PackedStep batch = packed(step, attention_.layout());
      const LayerRows o = attention_.run(batch, model_.qkv(batch.tokens));
      const bool has_token =
          !part.sampled || best_tokens(model_.logits(o, batch.sampled_rows))[0] == served.tokens[end];
      if (has_token && digest_of(o, 0, part.tokens) == part.digest)
        ++check.equal_parts;
      else
        check.complaints.push_back(name_of(served) + ", tokens " + std::to_string(part.begin) + " to " +
                                   std::to_string(end) + ": alone " +
                                   (has_token ? "the output has other bits" : "another token follows"));
    }
    for (const std::int32_t page : sequence.pages) pool_.give_back(page);
  }
  bool on_gpu() const { return attention_.on_gpu(); }

 private:
  static EngineLimits with_batch_of_one(EngineLimits limits) {
    limits.batch = 1;
    limits.pages = limits.max_pages();
    return limits;
  }

  EngineLimits limits_;
  ThinModel& model_;
  StepAttention attention_;
  PagePool pool_;
};

std::string description(const Sequence& sequence, std::int64_t row, int token, int expected, float margin) {
  char text[200];
  std::snprintf(text, sizeof text, "%s, token %lld: %d, as a whole %d, whose logit is larger by %.4g",
                name_of(sequence).c_str(), static_cast<long long>(row), token, expected,
                static_cast<double>(margin));
  return text;
}

/// Compares the logits of a sequence's generated tokens with those of the sequence as a whole.
void compare_logits(const Sequence& served, const Trace& trace, const Matrix<float>& whole, Check& check) {
  Matrix<float> logits(whole.rows, whole.columns);
  for (std::int64_t i = 0; i < whole.rows; ++i)
    std::ranges::copy(trace.logits[static_cast<std::size_t>(i)], logits.row(i));
  const double difference = relative_distance(logits, whole);
  require_at_most(kLogitsDifference, ("the logits' difference of " + name_of(served)).c_str(), difference,
                  check.complaints);
  check.logits_difference = std::max(check.logits_difference, difference);
  const Tokens tokens = best_tokens(logits), expected = best_tokens(whole);
  for (std::int64_t i = 0; i < whole.rows; ++i) {
    const int token = tokens[static_cast<std::size_t>(i)], best = expected[static_cast<std::size_t>(i)];
    if (token == best) continue;
    const float margin = whole.row(i)[best] - whole.row(i)[token];
    (margin <= kTie ? check.ties : check.complaints).push_back(description(served, i, token, best, margin));
  }
}

}  // namespace

Check check(fa2::Context& context, const ModelShape& shape, const EngineLimits& limits, ThinModel& model,
            const Scheduler& scheduler, const Traces& traces) {
  Check result;
  if (scheduler.pool().free_pages() != limits.pages)
    result.complaints.push_back(std::to_string(limits.pages - scheduler.pool().free_pages()) +
                                " pages are still taken, must be 0");
  Alone alone(context, shape, limits, model);
  for (const auto& sequence : scheduler.finished()) {
    const Trace& trace = traces.at(sequence->request.id);
    alone.compare(*sequence, trace, result);
    const auto prompt = static_cast<std::int64_t>(sequence->request.prompt.size());
    std::vector<std::int64_t> rows;  // that precede a generated token
    for (std::int64_t row = prompt - 1; row < sequence->length() - 1; ++row) rows.push_back(row);
    const Tokens computed(sequence->tokens.begin(), sequence->tokens.end() - 1);
    const LayerRows o = attend_whole(context, shape, model.qkv(computed), limits.longest, alone.on_gpu());
    compare_logits(*sequence, trace, model.logits(o, rows), result);
  }
  return result;
}

}  // namespace example
