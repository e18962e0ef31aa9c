// Attention with all tokens of some heads on each rank: O, LSE and gradients are one device's, whatever the layout.
#include <doctest/doctest.h>
#include <fa2/context_parallel.h>
#include <runtime/device.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "../support/shard_runs.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr ContextParallelScheme kHeads = ContextParallelScheme::all_to_all;

/// Returns the cases in which results do not depend on the numbers of heads, with 5 key/value heads.
std::vector<ShardedCase> head_cases(std::int64_t tokens, std::int64_t batch) {
  std::vector<ShardedCase> all;
  for (ShardedCase of : sharded_cases(tokens, batch)) {
    if (of.problem.dropout || of.problem.score_text != 0) continue;
    of.problem.heads_kv = 5, of.problem.heads_q = 10;
    of.problem.batch_invariant = true;
    all.push_back(of);
  }
  return all;
}

/// Returns many slices of unequal lengths, dealt to ranks in turn. The last of three or more ranks has none.
ShardLayout scattered(std::int64_t tokens, int ranks) {
  ShardLayout layout{tokens, std::vector<std::vector<Slice>>(static_cast<std::size_t>(ranks))};
  const int dealt = std::max(2, ranks - 1);
  for (std::int64_t begin = 0, number = 0; begin < tokens; ++number) {
    const std::int64_t end = std::min(tokens, begin + 9 + 7 * (number % 3));
    layout.ranks[static_cast<std::size_t>(number % dealt)].push_back({begin, end});
    begin = end;
  }
  return layout;
}

void expect_one_device(const ShardedCase& of, const ShardLayout& layout, const ShardRun& run, bool backward) {
  INFO(of.name, ", batch ", of.problem.batch, ", ", run.ranks, " ranks, ", run.groups, " groups");
  Context context(untuned());
  GuardedBackward whole = whole_call(of);
  whole.forward.upload();
  run_and_expect_contract(context, whole.forward);
  const Outcome outcome = run_ranks(context, of, whole, layout, run, backward);
  expect_outputs(of, whole, outcome, layout, true);
  for (const ContextParallelExplanation& e : outcome.explanations) CHECK(e.scheme == kHeads);
  if (backward) expect_gradients_of(whole, outcome, layout);
}

}  // namespace

TEST_CASE("context parallel by heads: outputs have the bits of one device") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  int number = 0;
  for (const ShardedCase& of : head_cases(70, 1)) {
    const int ranks = number % 3 == 2 ? 5 : 2;
    const ShardRun run{ranks,        1 + number % 2, number % 3 == 0, static_cast<std::uint64_t>(++number),
                       guarded_bshd, kHeads};
    expect_one_device(of, scattered(of.tokens(), ranks), run, false);
  }
}

TEST_CASE("context parallel by heads: batches and documents") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (const ShardedCase& of : head_cases(40, 2))
    expect_one_device(of, scattered(40, 3), {3, 1, true, 3, guarded_bhsd, kHeads}, false);
  for (const ShardedCase& of : head_cases(1, 1)) {
    const ShardedCase packed = with_documents(of, {30, 0, 1, 20, 15});
    expect_one_device(packed, scattered(packed.tokens(), 3), {3, 1, false, 5, guarded_bshd, kHeads}, false);
  }
}

TEST_CASE("context parallel by heads: gradients, those of sinks too") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const std::vector<ShardedCase> all = head_cases(50, 1), batches = head_cases(50, 2);
  for (std::size_t number = 0; number < all.size(); ++number) {
    ShardedCase of = number % 2 == 1 ? batches[number] : all[number];
    if (number % 4 == 2) of = with_documents(of, {30, 1, 19});
    const ShardRun run{
        2 + static_cast<int>(number) / 2 % 2, 2, number % 3 == 0, 1 + number, guarded_bshd, kHeads};
    expect_one_device(of, scattered(of.tokens(), run.ranks), run, true);
  }
}

TEST_CASE("context parallel by heads: gradients of more groups than there are slots") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  ShardedCase of = head_cases(24, 1)[0];
  of.problem.heads_q = of.problem.heads_kv = 8;
  expect_one_device(of, scattered(24, 2), {2, 4, true, 6, guarded_bshd, kHeads}, true);
}

TEST_CASE("context parallel by heads: the sums of sinks' gradients over ranks are one device's") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  expect_sums_of_sinks(context, head_cases(60, 2)[0], scattered(60, 3),
                       {3, 1, true, 2, guarded_bshd, kHeads});
}

TEST_CASE("context parallel by heads: a gradient of LSE, which ranks may leave out") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  const ShardedCase of = head_cases(60, 2)[0];
  GuardedBackward whole = whole_call(of);
  whole.give_d_lse();
  for (std::size_t i = 0; i < whole.d_lse.size(); ++i)
    if (i % 60 >= 20) whole.d_lse[i] = 0;
  whole.forward.upload();
  run_and_expect_contract(context, whole.forward);
  const ShardRun run{2, 2, true, 9, guarded_bshd, kHeads};
  const ShardLayout layout = ShardLayout::contiguous(60, 2);  // the second rank has zeros alone
  expect_gradients_of(whole, run_ranks(context, of, whole, layout, run, true), layout);
}

TEST_CASE(
    "context parallel by heads: chosen where a layout has too many slices, or fewer bytes are exposed") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  const auto chosen = [&](const ShardedCase& of, const ShardLayout& layout, int ranks) {
    GuardedBackward whole = whole_call(of);
    whole.forward.upload();
    run_and_expect_contract(context, whole.forward);
    const Outcome outcome = run_ranks(context, of, whole, layout, {ranks, 1}, false);
    expect_outputs(of, whole, outcome, layout, outcome.explanations[0].scheme == kHeads);
    return outcome.explanations[0];
  };
  ShardedCase of = head_cases(96, 1)[0];
  CHECK(chosen(of, scattered(96, 3), 3).reason == "the layout has too many slices to gather keys for");
  of.problem.heads_q = of.problem.heads_kv = 6;
  const ContextParallelExplanation e = chosen(of, ShardLayout::zigzag(96, 6), 6);
  CHECK(e.reason == "fewer bytes are sent before the first kernel than by gather_heads");
  // 16 tokens of Q, K, V and O for one head, and LSE.
  CHECK(e.sent_bytes[1] == 16 * (4 * of.problem.head_dim * 2 + 4));
  CHECK(e.sent_bytes == e.received_bytes);
  of.problem.heads_q = 18;
  CHECK(chosen(of, ShardLayout::zigzag(96, 2), 2).scheme == ContextParallelScheme::gather_heads);
}
