// Attention over sharded tokens whose messages are copies into memory that ranks map. Ranks are threads, whose memory is the same.
#include <doctest/doctest.h>
#include <fa2/context_parallel.h>
#include <runtime/device.h>

#include <cstdint>
#include <latch>
#include <string>
#include <vector>

#include "../support/shard_runs.h"

using namespace fa2;
using namespace fa2::test;

namespace {

using Scheme = ContextParallelScheme;

constexpr const char* kCopies = "copy engines, into memory that ranks map";

/// Ranks that are threads map no memory of a GPU.
bool share_a_gpu() {
  return device_under_test() != kInterpreterDevice;
}

/// Checks a run, and that it has the bits of a run by the communicator.
void expect_bits(const ShardedCase& of, const ShardRun& run) {
  INFO(of.name, ", ", to_string(run.scheme), ", ", run.ranks, " ranks, ", run.groups, " groups");
  Context context(untuned());
  const GuardedBackward whole = whole_call(of);
  const ShardLayout layout = of.problem.varlen ? ShardLayout::zigzag_documents(of.cu_seqlens, run.ranks)
                                               : ShardLayout::zigzag(of.tokens(), run.ranks);
  ShardRun mapped = run;
  mapped.peer_memory = true;
  const Outcome expected = run_ranks(context, of, whole, layout, run, true),
                outcome = run_ranks(context, of, whole, layout, mapped, true);
  for (std::size_t rank = 0; rank < outcome.out.size(); ++rank) {
    CHECK(outcome.out[rank].values == expected.out[rank].values);
    CHECK(outcome.lse[rank] == expected.lse[rank]);
    const ContextParallelExplanation& e = outcome.explanations[rank];
    CHECK(e.transport ==
          (share_a_gpu() ? "the communicator: ranks 0 and 1 are threads of one process" : kCopies));
    CHECK((e.workspace_bytes == 0) == !share_a_gpu());
    CHECK((e.peer_bytes > 0) == !share_a_gpu());
    CHECK(expected.explanations[rank].transport ==
          "the communicator: that of rank 0 allows no peer memory, or FA2_PEER_MEMORY is 0 there");
  }
  expect_same_gradients(expected, outcome);
}

}  // namespace

TEST_CASE("context parallel through peer memory: the bits of messages") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  std::uint64_t seed = 0;
  for (const Scheme scheme : {Scheme::gather_heads, Scheme::staged})
    for (const int ranks : {2, 3}) {
      const std::int32_t groups = scheme == Scheme::staged ? 0 : ranks;
      expect_bits(sharded_cases(70, 1)[0], {ranks, groups, true, ++seed, guarded_bshd, scheme});
      expect_bits(with_documents(sharded_cases(1, 1)[3], {60, 1, 30}),
                  {ranks, groups, false, ++seed, guarded_bshd, scheme});
    }
  expect_bits(sharded_cases(40, 5)[0], {2, 5, false, ++seed, guarded_bshd, Scheme::gather_heads});
  for (const int ranks : {2, 3}) {
    ShardedCase of = sharded_cases(50, 2)[0];
    of.problem.heads_kv = 5, of.problem.heads_q = 10;
    expect_bits(of, {ranks, 3 - ranks / 2, true, ++seed, guarded_bhsd, Scheme::all_to_all});
  }
}

TEST_CASE(
    "context parallel through peer memory: plans of a communicator share it, and a larger one has more") {
  if (cannot_run()) return;
  if (share_a_gpu()) {
    MESSAGE("skipped: ranks that are threads map no memory of a GPU");
    return;
  }
  const ScopedContext current(device_under_test());
  Context context(untuned());
  ThreadGroupOptions threads = rank_threads(false, 1);
  threads.peer_memory = true;
  ThreadGroup(2, threads).run([&](Communicator& own) {
    const ScopedContext on_rank(device_under_test());
    const auto plan_of = [&](std::int64_t tokens) {
      return context.context_parallel_plan(sharded_cases(tokens, 1)[0].problem,
                                           ShardLayout::zigzag(tokens, 2), own,
                                           {.scheme = Scheme::gather_heads});
    };
    const ContextParallelPlan middle = plan_of(80), small = plan_of(20), large = plan_of(200);
    CHECK(small.explain().peer_bytes == middle.explain().peer_bytes);
    CHECK(large.explain().peer_bytes > middle.explain().peer_bytes);
    CHECK(middle.explain().transport == kCopies);
    const ShardedCase of = sharded_cases(80, 1)[0];
    const GuardedBackward whole = whole_call(of);
    const ShardCall call(whole, ShardLayout::zigzag(80, 2).ranks[static_cast<std::size_t>(own.rank())],
                         guarded_bshd);
    for (int i = 0; i < 2; ++i) middle.run(call.forward());
  });
}

TEST_CASE(
    "context parallel through peer memory: a run that is not completed ends all runs of the communicator") {
  if (cannot_run()) return;
  if (share_a_gpu()) {
    MESSAGE("skipped: ranks that are threads map no memory of a GPU");
    return;
  }
  const ScopedContext current(device_under_test());
  Context context(untuned());
  const ShardedCase of = sharded_cases(40, 1)[0];
  const GuardedBackward whole = whole_call(of);
  ThreadGroupOptions threads = rank_threads(false, 1);
  threads.peer_memory = true;
  std::vector<std::string> errors(2);
  std::latch planned(1);  // rank 0 has its plan
  const auto runs = [&](Communicator& own) {
    const ScopedContext on_rank(device_under_test());
    const auto rank = static_cast<std::size_t>(own.rank());
    const ContextParallelPlan plan = context.context_parallel_plan(of.problem, ShardLayout::zigzag(40, 2),
                                                                   own, {.scheme = Scheme::gather_heads});
    if (rank == 1) {
      planned.wait();
      throw CommunicationError("rank 1 gives up", 1);
    }
    planned.count_down();
    const ShardCall call(whole, ShardLayout::zigzag(40, 2).ranks[rank], guarded_bshd);
    for (std::string& error : errors) try {
        plan.run(call.forward());
      } catch (const CommunicationError& caught) {
        error = caught.what();
      }
  };
  CHECK_THROWS_AS(ThreadGroup(2, threads).run(runs), CommunicationError);
  CHECK(errors[0].find("rank 1 gives up") != std::string::npos);
  CHECK(errors[1].find("gives up") != std::string::npos);
}
