#include "shard_runs.h"

#include <doctest/doctest.h>
#include <parallel/thread_group.h>
#include <runtime/device.h>

namespace fa2::test {

using reference::Tensor;

namespace {

ContextParallelOptions options_of(const ShardedCase& of, const ShardRun& run, bool backward) {
  ContextParallelOptions options;
  options.scheme = run.scheme;
  options.groups = of.problem.dropout || of.problem.score_text != 0 ? 0 : run.groups;
  if (of.problem.sinks && of.problem.batch > 1 && run.scheme != ContextParallelScheme::all_to_all)
    options.groups = 0;
  if (backward)
    options.gradients = Gradients{.d_sinks = of.problem.sinks, .determinism = Determinism::bitwise};
  return options;
}

}  // namespace

Outcome run_ranks(Context& context, const ShardedCase& of, const GuardedBackward& whole,
                  const ShardLayout& layout, const ShardRun& run, bool backward) {
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

void expect_outputs(const ShardedCase& of, const GuardedBackward& whole, const Outcome& outcome,
                    const ShardLayout& layout, bool same_bits) {
  const Tensor out = whole.forward.out();
  const Tensor lse{out.batch, out.heads, out.rows, 1, whole.forward.lse()};
  for (std::size_t rank = 0; rank < outcome.out.size(); ++rank) {
    INFO("rank ", rank);
    const Tensor expected = rows_of(out, layout.ranks[rank]), sums = rows_of(lse, layout.ranks[rank]);
    if (same_bits) {
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
  const std::vector<double> d_lse(whole.d_lse.begin(), whole.d_lse.end());
  const auto of = [&](const auto& function) {
    return function(in.problem, in.q, in.k, in.v, whole.d_out, d_lse.empty() ? nullptr : &d_lse, in.rule());
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

void expect_all_pairs(const Outcome& outcome, std::int64_t expected) {
  std::int64_t pairs = 0;
  for (const ContextParallelExplanation& e : outcome.explanations) pairs += e.pairs;
  CHECK(pairs == expected);
}

}  // namespace fa2::test
