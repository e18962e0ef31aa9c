// Attention over sharded tokens: ranks are threads, each with kernels of its own. Together they compute what one device computes.
#include <doctest/doctest.h>
#include <fa2/context_parallel.h>
#include <parallel/thread_group.h>
#include <runtime/device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "../support/shards.h"

using namespace fa2;
using namespace fa2::test;

namespace {

using reference::Tensor;

constexpr MaskKind kCausal = MaskKind::causal_bottom_right;
constexpr const char* kConfig = "kernel=forward_sm80,tile_m=64,tile_n=32,warps=4,stages=2";
constexpr std::int64_t kTile = 64;

/// What all ranks computed.
struct Outcome {
  std::vector<Tensor> out, dq, dk, dv;
  std::vector<std::vector<float>> lse, d_sinks;
  std::vector<ContextParallelExplanation> explanations;
};

struct Run {
  int ranks = 2;
  std::int32_t groups = 0;
  bool late = false;
  std::uint64_t seed = 1;
  MakeLayout tensors = guarded_bshd;
};

ContextParallelOptions options_of(const ShardedCase& of, const Run& run, bool backward) {
  ContextParallelOptions options;
  options.groups = of.problem.dropout || of.problem.score_text != 0 ? 0 : run.groups;
  if (of.problem.sinks && of.problem.batch > 1) options.groups = 0;
  if (backward)
    options.gradients = Gradients{.d_sinks = of.problem.sinks, .determinism = Determinism::bitwise};
  return options;
}

/// Runs a forward, and on request a backward, on every rank.
Outcome run_ranks(Context& context, const ShardedCase& of, const GuardedBackward& whole,
                  const ShardLayout& layout, const Run& run, bool backward) {
  const auto count = static_cast<std::size_t>(run.ranks);
  const std::vector<Tensor> none(count);
  Outcome outcome{none,
                  none,
                  none,
                  none,
                  std::vector<std::vector<float>>(count),
                  std::vector<std::vector<float>>(count),
                  std::vector<ContextParallelExplanation>(count)};
  const ContextParallelOptions options = options_of(of, run, backward);
  ThreadGroup(run.ranks, rank_threads(run.late, run.seed)).run([&](Communicator& own) {
    const ScopedContext current(device_under_test());
    const auto rank = static_cast<std::size_t>(own.rank());
    const ContextParallelPlan plan =
        context.context_parallel_plan(of.problem, layout, own, options, of.cu_seqlens);
    const ShardCall call(whole, layout.ranks[rank], run.tensors);
    plan.run(call.forward());
    outcome.out[rank] = call.out(), outcome.lse[rank] = call.lse();
    outcome.explanations[rank] = plan.explain();
    if (!backward) return;
    plan.run_backward(call.backward(*options.gradients));
    outcome.dq[rank] = call.dq(), outcome.dk[rank] = call.dk(), outcome.dv[rank] = call.dv();
    outcome.d_sinks[rank] = call.d_sinks();
  });
  return outcome;
}

/// Returns chunks that begin at multiples of a tile, so that tiles are those of one device.
ShardLayout zigzag(const ShardedCase& of, int ranks, std::int64_t granule = kTile) {
  if (of.problem.varlen) return ShardLayout::zigzag_documents(of.cu_seqlens, ranks, granule);
  return ShardLayout::zigzag(of.tokens(), ranks, granule);
}

/// Returns whether windows or chunks move the first key of a tile.
bool moves_blocks(const AttentionProblem& p) {
  return !p.dropout && (p.window_left || p.attention_chunk);
}

/// CHECKs that every rank has its rows of O and LSE.
void expect_outputs(const ShardedCase& of, const GuardedBackward& whole, const Outcome& outcome,
                    const ShardLayout& layout, bool same_tiles) {
  const Tensor out = whole.forward.out();
  const Tensor lse{out.batch, out.heads, out.rows, 1, whole.forward.lse()};
  for (std::size_t rank = 0; rank < outcome.out.size(); ++rank) {
    INFO("rank ", rank);
    const Tensor expected = rows_of(out, layout.ranks[rank]), sums = rows_of(lse, layout.ranks[rank]);
    if (same_tiles && !moves_blocks(of.problem)) {
      CHECK(bits_of(outcome.out[rank], of.problem.dtype) == bits_of(expected, of.problem.dtype));
      CHECK(outcome.lse[rank] == sums.values);
      continue;
    }
    CHECK(reference::errors_of(outcome.out[rank], expected).largest <= 0.02);
    for (std::size_t i = 0; i < sums.values.size(); ++i)
      CHECK(outcome.lse[rank][i] == doctest::Approx(sums.values[i]).epsilon(1e-5));
  }
}

void expect_gradients_of(const GuardedBackward& whole, const Outcome& outcome, const ShardLayout& layout) {
  const GuardedCall& in = whole.forward;
  const auto of = [&](const auto& function) {
    return function(in.problem, in.q, in.k, in.v, whole.d_out, nullptr, in.rule());
  };
  const reference::Gradients exact = of(reference::gradients_f64),
                             baseline = of(reference::gradients_baseline);
  for (std::size_t rank = 0; rank < outcome.dq.size(); ++rank) {
    INFO("rank ", rank);
    const std::vector<Slice>& slices = layout.ranks[rank];
    if (outcome.dq[rank].rows == 0) continue;
    expect_close("dq", outcome.dq[rank], rows_of(exact.dq, slices), rows_of(baseline.dq, slices));
    expect_close("dk", outcome.dk[rank], rows_of(exact.dk, slices), rows_of(baseline.dk, slices));
    expect_close("dv", outcome.dv[rank], rows_of(exact.dv, slices), rows_of(baseline.dv, slices));
  }
}

/// CHECKs that the pairs of all ranks are those of one device.
void expect_all_pairs(const Outcome& outcome, std::int64_t expected) {
  std::int64_t pairs = 0;
  for (const ContextParallelExplanation& e : outcome.explanations) pairs += e.pairs;
  CHECK(pairs == expected);
}

/// Without batch_invariant heads may share tiles on one side alone.
void expect_forward(ShardedCase of, const Run& run) {
  of.problem.batch_invariant = true;
  INFO(of.name, ", ", run.ranks, " ranks, ", run.groups, " groups");
  Context context(pinning(parse_config(kConfig)));
  GuardedBackward whole = whole_call(of);
  whole.forward.upload();
  run_and_expect_contract(context, whole.forward);
  const ShardLayout layout = zigzag(of, run.ranks);
  const Outcome outcome = run_ranks(context, of, whole, layout, run, false);
  expect_outputs(of, whole, outcome, layout, true);
  if (of.name == "causal" && !of.problem.varlen)
    expect_all_pairs(outcome, of.tokens() * (of.tokens() + 1) / 2);
}

}  // namespace

TEST_CASE("context parallel: outputs of zigzag shards have the bits of one device") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  int number = 0;
  for (const ShardedCase& of : sharded_cases(300, 1)) {
    for (const int ranks : {1, 2, 3}) {
      ++number;
      expect_forward(of, {ranks, 1 + number % 2, number % 2 == 0, static_cast<std::uint64_t>(number)});
    }
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
    const Run run{5, 2, true, 4};
    const ShardLayout layout = ShardLayout::contiguous(tokens, run.ranks);
    const Outcome outcome = run_ranks(context, of, whole, layout, run, false);
    expect_outputs(of, whole, outcome, layout, false);
    expect_all_pairs(outcome, tokens * (tokens + 1) / 2);
  }
}

TEST_CASE("context parallel: gradients are those of all tokens, and the same bits whatever arrives first") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  int number = 0;
  for (const std::int64_t batch : {1, 2}) {
    for (ShardedCase of : sharded_cases(160, batch)) {
      if (number % 3 == 2 && batch == 1) of = with_documents(of, {90, 1, 70});
      INFO(of.name, ", batch ", of.problem.batch);
      GuardedBackward whole = whole_call(of);
      whole.forward.upload();
      run_and_expect_contract(context, whole.forward);
      const Run run{2 + number % 2, 2, false, 1 + static_cast<std::uint64_t>(number)};
      const ShardLayout layout = zigzag(of, run.ranks, of.problem.dropout ? 16 : 1);
      const Outcome outcome = run_ranks(context, of, whole, layout, run, true);
      expect_outputs(of, whole, outcome, layout, false);
      expect_gradients_of(whole, outcome, layout);
      Run other = run;
      other.late = true, other.seed += 17;
      const Outcome again = run_ranks(context, of, whole, layout, other, true);
      for (std::size_t rank = 0; rank < outcome.dk.size(); ++rank) {
        CHECK(again.dq[rank].values == outcome.dq[rank].values);
        CHECK(again.dk[rank].values == outcome.dk[rank].values);
        CHECK(again.dv[rank].values == outcome.dv[rank].values);
      }
      ++number;
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
