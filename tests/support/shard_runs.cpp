#include "shard_runs.h"

#include <doctest/doctest.h>
#include <parallel/thread_group.h>
#include <runtime/device.h>

#include <cmath>

#include "float_tensor.h"

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
  ThreadGroupOptions threads = rank_threads(run.late, run.seed);
  threads.peer_memory = run.peer_memory;
  ThreadGroup(run.ranks, threads).run([&](Communicator& own) {
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

void expect_same_gradients(const Outcome& outcome, const Outcome& again) {
  for (std::size_t rank = 0; rank < outcome.dk.size(); ++rank) {
    CHECK(again.dq[rank].values == outcome.dq[rank].values);
    CHECK(again.dk[rank].values == outcome.dk[rank].values);
    CHECK(again.dv[rank].values == outcome.dv[rank].values);
  }
}

void expect_sums_of_sinks(Context& context, ShardedCase of, const ShardLayout& layout, const ShardRun& run) {
  of.problem.sinks = true;
  GuardedBackward whole = whole_call(of);
  whole.forward.upload();
  run_and_expect_contract(context, whole.forward);
  whole.upload();
  context.attention_backward(of.problem, whole.args());
  const Outcome outcome = run_ranks(context, of, whole, layout, run, true);
  const std::vector<float> expected = whole.d_sinks();
  for (std::size_t head = 0; head < expected.size(); ++head) {
    float sum = 0;
    for (const std::vector<float>& of_rank : outcome.d_sinks) sum += of_rank[head];
    CHECK(std::abs(sum - expected[head]) <= 0.02);  // O is rounded, by kernels and the reference
  }
}

void expect_float32_outputs(Context& context, const ShardedCase& of, const ShardLayout& layout,
                            const ContextParallelOptions& options) {
  GuardedBackward whole = whole_call(of);
  whole.forward.upload();
  AttentionProblem floats = of.problem;
  floats.float32_out = true;
  ThreadGroup(2, rank_threads(true, 1)).run([&](Communicator& own) {
    const ScopedContext on_rank(device_under_test());
    const ShardCall call(whole, layout.ranks[static_cast<std::size_t>(own.rank())], guarded_bshd);
    context.context_parallel_plan(of.problem, layout, own, options).run(call.forward());
    const Tensor halves = call.out();
    const FloatTensor out(guarded_bhsd({halves.batch, halves.heads, halves.rows, halves.dim}));
    AttentionArgs args = call.forward();
    args.out = out.data(), args.out_strides = out.strides();
    context.context_parallel_plan(floats, layout, own, options).run(args);
    SequenceRowsList entries;
    for (std::int64_t b = 0; b < halves.batch; ++b) entries.push_back({b, 0, halves.rows});
    expect_unrounded(out, halves, floats.dtype, entries);
  });
}

void expect_all_pairs(const Outcome& outcome, std::int64_t expected) {
  std::int64_t pairs = 0;
  for (const ContextParallelExplanation& e : outcome.explanations) pairs += e.pairs;
  CHECK(pairs == expected);
}

}  // namespace fa2::test
