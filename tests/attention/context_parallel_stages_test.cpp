// Attention over keys that arrive rank by rank: parts of O and of gradients are put together, and rounded once.
#include <doctest/doctest.h>
#include <fa2/context_parallel.h>
#include <runtime/device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "../support/shard_runs.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr ContextParallelScheme kStaged = ContextParallelScheme::staged;

/// Returns the cases in which results do not depend on the numbers of keys.
std::vector<ShardedCase> staged_cases(std::int64_t tokens, std::int64_t batch) {
  std::vector<ShardedCase> all;
  for (const ShardedCase& of : sharded_cases(tokens, batch))
    if (!of.problem.dropout && of.problem.score_text == 0 && (batch == 1 || !of.problem.attention_chunk))
      all.push_back(of);
  return all;
}

ShardRun staged(int ranks, bool late, std::uint64_t seed, MakeLayout tensors = guarded_bshd) {
  return {ranks, 0, late, seed, tensors, kStaged};
}

ShardLayout zigzag(const ShardedCase& of, int ranks) {
  return of.problem.varlen ? ShardLayout::zigzag_documents(of.cu_seqlens, ranks)
                           : ShardLayout::zigzag(of.tokens(), ranks);
}

/// Checks outputs and gradients, and that messages that arrive otherwise change no bit.
void expect_one_device(const ShardedCase& of, const ShardLayout& layout, const ShardRun& run, bool backward) {
  INFO(of.name, ", batch ", of.problem.batch, ", ", run.ranks, " ranks, ", to_string(layout));
  Context context(untuned());
  GuardedBackward whole = whole_call(of);
  whole.forward.upload();
  run_and_expect_contract(context, whole.forward);
  const Outcome outcome = run_ranks(context, of, whole, layout, run, backward);
  expect_outputs(of, whole, outcome, layout, false);
  for (const ContextParallelExplanation& e : outcome.explanations) CHECK(e.scheme == kStaged);
  if (backward) expect_gradients_of(whole, outcome, layout);
  ShardRun other = run;
  other.late = !run.late, other.seed += 17;
  const Outcome again = run_ranks(context, of, whole, layout, other, backward);
  for (std::size_t rank = 0; rank < outcome.out.size(); ++rank) {
    CHECK(again.out[rank].values == outcome.out[rank].values);
    CHECK(again.lse[rank] == outcome.lse[rank]);
  }
  expect_same_gradients(outcome, again);
}

}  // namespace

TEST_CASE("context parallel in stages: outputs of zigzag and contiguous shards") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  int number = 0;
  for (const ShardedCase& of : staged_cases(150, 1)) {
    const int ranks = 2 + number++ % 3;
    const ShardLayout layout =
        number % 2 == 0 ? ShardLayout::contiguous(of.tokens(), ranks) : zigzag(of, ranks);
    expect_one_device(of, layout, staged(ranks, number % 3 == 0, static_cast<std::uint64_t>(number)), false);
  }
}

TEST_CASE("context parallel in stages: batches and documents") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (const ShardedCase& of : staged_cases(70, 3))
    expect_one_device(of, zigzag(of, 2), staged(2, true, 3, guarded_bhsd), false);
  for (const ShardedCase& of : staged_cases(1, 1)) {
    const ShardedCase packed = with_documents(of, {100, 0, 1, 60, 33});
    expect_one_device(packed, zigzag(packed, 3), staged(3, false, 5), false);
  }
}

TEST_CASE("context parallel in stages: gradients, those of sinks too") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const std::vector<ShardedCase> all = staged_cases(100, 1), batches = staged_cases(100, 2);
  for (std::size_t number = 0; number < batches.size(); ++number) {
    ShardedCase of = number % 2 == 1 ? batches[number] : all[number];
    if (number % 4 == 2) of = with_documents(of, {60, 1, 39});
    const int ranks = 2 + static_cast<int>(number) / 2 % 2;
    expect_one_device(of, zigzag(of, ranks), staged(ranks, number % 3 == 0, 1 + number), true);
  }
}

TEST_CASE("context parallel in stages: more stages than slots, and ranks without tokens") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const ShardedCase of = staged_cases(90, 2)[0];
  expect_one_device(of, ShardLayout::zigzag(90, 5), staged(5, true, 2), true);
  const ShardedCase few = staged_cases(3, 1)[0];
  expect_one_device(few, ShardLayout::contiguous(3, 5), staged(5, false, 4), true);
}

TEST_CASE("context parallel in stages: the sums of sinks' gradients over ranks are one device's") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  const ShardedCase of = staged_cases(60, 2)[0];
  expect_sums_of_sinks(context, of, zigzag(of, 3), staged(3, true, 2));
}

TEST_CASE("context parallel in stages: float32 outputs are merged without rounding") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  expect_float32_outputs(context, {"float32 outputs", staged_cases(110, 2)[0].problem},
                         ShardLayout::zigzag(110, 2), {.scheme = kStaged});
}
