// Attention over sharded tokens: ranks are threads, each with kernels of its own. Together they compute what one device computes.
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

constexpr const char* kConfig = "kernel=forward_sm80,tile_m=64,tile_n=32,warps=4,stages=2";
constexpr std::int64_t kTile = 64;

/// Returns chunks that begin at multiples of a tile, so that tiles are those of one device.
ShardLayout zigzag(const ShardedCase& of, int ranks, std::int64_t granule = kTile) {
  if (of.problem.varlen) return ShardLayout::zigzag_documents(of.cu_seqlens, ranks, granule);
  return ShardLayout::zigzag(of.tokens(), ranks, granule);
}

/// Returns whether windows or chunks move the first key of a tile.
bool moves_blocks(const AttentionProblem& p) {
  return !p.dropout && (p.window_left || p.attention_chunk);
}

/// Without batch_invariant heads may share tiles on one side alone.
void expect_forward(ShardedCase of, const ShardRun& run) {
  of.problem.batch_invariant = true;
  INFO(of.name, ", ", run.ranks, " ranks, ", run.groups, " groups");
  Context context(pinning(parse_config(kConfig)));
  GuardedBackward whole = whole_call(of);
  whole.forward.upload();
  run_and_expect_contract(context, whole.forward);
  const ShardLayout layout = zigzag(of, run.ranks);
  const Outcome outcome = run_ranks(context, of, whole, layout, run, false);
  expect_outputs(of, whole, outcome, layout, !moves_blocks(of.problem));
  if (of.name == "causal" && !of.problem.varlen)
    expect_all_pairs(outcome, of.tokens() * (of.tokens() + 1) / 2);
}

/// Checks gradients, and that messages that arrive late change no bit.
void expect_gradients(const ShardedCase& of, const ShardRun& run) {
  INFO(of.name, ", batch ", of.problem.batch, ", ", run.ranks, " ranks, ", run.groups, " groups");
  Context context(untuned());
  GuardedBackward whole = whole_call(of);
  whole.forward.upload();
  run_and_expect_contract(context, whole.forward);
  const ShardLayout layout = zigzag(of, run.ranks, of.problem.dropout ? 16 : 1);
  const Outcome outcome = run_ranks(context, of, whole, layout, run, true);
  expect_outputs(of, whole, outcome, layout, false);
  expect_gradients_of(whole, outcome, layout);
  ShardRun other = run;
  other.late = !run.late, other.seed += 17;
  const Outcome again = run_ranks(context, of, whole, layout, other, true);
  expect_same_gradients(outcome, again);
}

}  // namespace

TEST_CASE("context parallel: outputs of zigzag shards have the bits of one device") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  int number = 0;
  for (const ShardedCase& of : sharded_cases(300, 1)) {
    const int ranks = 1 + number++ % 3;
    expect_forward(of, {ranks, 1 + number % 2, number % 2 == 0, static_cast<std::uint64_t>(number)});
    if (ranks == 1) expect_forward(of, {2, 2, true, static_cast<std::uint64_t>(number)});
  }
}

TEST_CASE("context parallel: batches, whose groups are entries") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (const ShardedCase& of : sharded_cases(200, 3)) expect_forward(of, {2, 2, true, 3, guarded_bhsd});
}

TEST_CASE("context parallel: documents, some of them shorter than a chunk, empty, or on one rank") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (const ShardedCase& of : sharded_cases(1, 1)) {
    const ShardedCase packed = with_documents(of, {200, 0, 1, 130, 64, 20});
    expect_forward(packed, {2, 2, true, 5});
    expect_forward(packed, {4, 1, false, 6});
  }
}

TEST_CASE("context parallel: more ranks than tokens, and contiguous shards of any length") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (const std::int64_t tokens : {3, 101}) {
    const ShardedCase of = sharded_cases(tokens, 1)[0];
    GuardedBackward whole = whole_call(of);
    whole.forward.upload();
    run_and_expect_contract(context, whole.forward);
    const ShardRun run{5, 2, true, 4};
    const ShardLayout layout = ShardLayout::contiguous(tokens, run.ranks);
    const Outcome outcome = run_ranks(context, of, whole, layout, run, false);
    expect_outputs(of, whole, outcome, layout, false);
    expect_all_pairs(outcome, tokens * (tokens + 1) / 2);
  }
}

TEST_CASE("context parallel: gradients are those of all tokens, and the same bits whatever arrives first") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const std::vector<ShardedCase> all = sharded_cases(120, 1), batches = sharded_cases(120, 2);
  for (std::size_t number = 0; number < all.size(); ++number) {
    ShardedCase of = number % 2 == 1 ? batches[number] : all[number];
    if (number % 4 == 2) of = with_documents(of, {70, 1, 49});
    expect_gradients(of, {2 + static_cast<int>(number) / 2 % 2, 2, false, 1 + number});
  }
}

TEST_CASE("context parallel: gradients of more groups than there are slots") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  expect_gradients(sharded_cases(40, 5)[0], {2, 5, false, 3});
}

TEST_CASE("context parallel: two groups of a forward are not those of the backward") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  ShardedCase of = sharded_cases(70, 1)[0];
  of.problem.heads_q = 10, of.problem.heads_kv = 5;
  expect_gradients(of, {2, 2, false, 11});
  Context context(untuned());
  const GuardedBackward whole = whole_call(of);
  for (const bool backward : {false, true}) {
    const Outcome outcome = run_ranks(context, of, whole, zigzag(of, 2, 1), {2, 2}, backward);
    for (const ContextParallelExplanation& e : outcome.explanations) {
      CHECK(e.groups == 2);
      CHECK(e.backward_groups == (backward ? 2 : 0));
    }
  }
}

TEST_CASE("context parallel: ranks without keys of others exchange nothing, and read their own tensors") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  const ShardedCase of = with_documents(sharded_cases(1, 1)[0], {50, 70, 50});
  GuardedBackward whole = whole_call(of);
  whole.forward.upload();
  run_and_expect_contract(context, whole.forward);
  const ShardLayout layout{170, {{{0, 50}, {120, 170}}, {{50, 120}}}};
  const Outcome outcome = run_ranks(context, of, whole, layout, {2, 2}, true);
  expect_outputs(of, whole, outcome, layout, false);
  expect_gradients_of(whole, outcome, layout);
  for (const ContextParallelExplanation& e : outcome.explanations) {
    CHECK(e.scheme == ContextParallelScheme::local);
    CHECK(e.workspace_bytes == 0);
    CHECK(e.sent_bytes == std::vector<std::int64_t>{0, 0});
  }
}

TEST_CASE("context parallel: windows move what they see, and no more") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  ShardedCase of = sharded_cases(96, 1)[0];
  of.problem.window_left = 7;
  GuardedBackward whole = whole_call(of);
  whole.forward.upload();
  const Outcome outcome = run_ranks(context, of, whole, ShardLayout::contiguous(96, 3), {3, 1}, false);
  const AttentionProblem& p = whole.forward.problem;
  const std::int64_t halo = 7 * p.heads_kv * (p.head_dim + p.head_dim_v) * 2;
  CHECK(outcome.explanations[0].sent_bytes == std::vector<std::int64_t>{0, halo, 0});
  CHECK(outcome.explanations[1].received_bytes == std::vector<std::int64_t>{halo, 0, 0});
  CHECK(outcome.explanations[2].received_bytes == std::vector<std::int64_t>{0, halo, 0});
  expect_all_pairs(outcome, 96 * 8 - 28);
}

TEST_CASE("context parallel: outputs in float32, by groups of entries") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(pinning(parse_config(kConfig)));
  const ShardedCase of{"float32 outputs", sharded_cases(150, 2)[0].problem};
  expect_float32_outputs(context, of, zigzag(of, 2), {.groups = 2});
}
