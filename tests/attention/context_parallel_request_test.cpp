// What plans of sharded tokens refuse, on every rank alike, and which plan a call finds.
#include <doctest/doctest.h>
#include <fa2/context_parallel.h>
#include <parallel/thread_group.h>
#include <runtime/device.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "../support/shards.h"

using namespace fa2;
using namespace fa2::test;

namespace {

/// Returns the violations with which every rank refuses a plan.
std::vector<std::string> refusals(const std::function<void(Communicator&, Context&)>& make, int ranks = 2) {
  Context context(untuned());
  std::vector<std::vector<std::string>> found(static_cast<std::size_t>(ranks));
  ThreadGroup(ranks, rank_threads(false, 1)).run([&](Communicator& own) {
    const ScopedContext current(device_under_test());
    try {
      make(own, context);
    } catch (const InvalidRequest& error) {
      for (const Violation& violation : error.violations())
        found[static_cast<std::size_t>(own.rank())].push_back(to_string(violation));
    }
  });
  for (const auto& of_rank : found) CHECK(of_rank == found[0]);
  return found[0];
}

/// One of two ranks that share a causal sequence, and a call for its tokens.
struct Rank {
  Context& context;
  const AttentionProblem& problem;
  const ShardLayout& layout;
  Communicator& own;
  const ShardCall& call;

  ContextParallelPlan plan(const ContextParallelOptions& options) const {
    return context.context_parallel_plan(problem, layout, own, options);
  }
};

void on_two_ranks(const std::function<void(const Rank&)>& run) {
  const ScopedContext current(device_under_test());
  Context context(untuned());
  const ShardedCase of = sharded_cases(32, 1)[0];
  const GuardedBackward whole = whole_call(of);
  const ShardLayout layout = ShardLayout::zigzag(32, 2);
  ThreadGroup(2, rank_threads(true, 2)).run([&](Communicator& own) {
    const ScopedContext on_rank(device_under_test());
    const ShardCall call(whole, layout.ranks[static_cast<std::size_t>(own.rank())], guarded_bshd);
    run({context, of.problem, layout, own, call});
  });
}

AttentionProblem causal_problem(std::int64_t tokens) {
  return sharded_cases(tokens, 1)[0].problem;
}

}  // namespace

TEST_CASE("context parallel: requests that no plan computes are refused on every rank, with every reason") {
  if (cannot_run()) return;
  using Strings = std::vector<std::string>;
  const ShardLayout layout = ShardLayout::zigzag(64, 2);
  const auto refused = [&](const AttentionProblem& problem, const ShardLayout& of,
                           const ContextParallelOptions& options = {},
                           const std::vector<std::int64_t>& cu_seqlens = {}) {
    return refusals([&](Communicator& own, Context& context) {
      context.context_parallel_plan(problem, of, own, options, cu_seqlens);
    });
  };
  AttentionProblem problem = causal_problem(64);
  problem.max_logits = true, problem.dropout = true;
  ContextParallelOptions options{.groups = 2, .gradients = Gradients{.dk = false}};
  CHECK(refused(problem, ShardLayout::zigzag(64, 3), options) ==
        Strings{"max_logits = true, must be false: ranks do not exchange logits",
                "layout.ranks = 3, must be the 2 ranks of the communicator",
                "gradients.dk = false, must equal gradients.dv: both go home together",
                "groups = 2, must be 0 or 1: dropout depends on the numbers of heads and batch entries"});
  problem = causal_problem(64);
  CHECK(refused(problem, ShardLayout::zigzag(63, 2)) ==
        Strings{"layout.tokens = 63, must equal the tokens of the problem, 64"});
  CHECK(refused(problem, layout, {.scheme = ContextParallelScheme::local}) ==
        Strings{"scheme = local, must not be local: queries see keys of other ranks"});
  problem.seqlen_k = 65;
  CHECK(refused(problem, layout) ==
        Strings{"seqlen_k = 65, must equal seqlen_q = 64: queries and keys are the same tokens"});
  CHECK(refused(causal_problem(60), {60, {{{0, 10}, {20, 30}, {40, 60}}, {{10, 20}, {30, 40}}}},
                {.scheme = ContextParallelScheme::gather_heads}) ==
        Strings{"layout.ranks[0] = 3 slices of [0, 60), must be at most 2: kernels take two pieces of a "
                "document or chunk"});
  const ContextParallelOptions by_heads{.scheme = ContextParallelScheme::all_to_all};
  problem = causal_problem(64);
  problem.heads_kv = 1;
  CHECK(refused(problem, layout, by_heads) ==
        Strings{"scheme = all_to_all, must not be all_to_all: there are 1 key/value heads for 2 ranks"});
  problem.heads_kv = 2, problem.dropout = true;
  CHECK(refused(problem, layout, by_heads) ==
        Strings{"scheme = all_to_all, must not be all_to_all: dropout depends on the numbers of heads and "
                "batch entries"});
  const ContextParallelOptions staged{.scheme = ContextParallelScheme::staged, .groups = 2};
  CHECK(refused(problem, layout, staged) == Strings{"groups = 2, must be 0: stages have all heads"});
  CHECK(refused(problem, layout, {.scheme = ContextParallelScheme::staged}) ==
        Strings{"scheme = staged, must not be staged: dropout depends on the numbers of keys"});
  problem = causal_problem(64);
  problem.batch = 2, problem.attention_chunk = 16;
  CHECK(
      refused(problem, layout, {.scheme = ContextParallelScheme::staged}) ==
      Strings{
          "scheme = staged, must not be staged: chunks of several batch entries count from their first key"});
  problem = causal_problem(104);
  problem.dropout = true;
  CHECK(refused(problem, ShardLayout::zigzag(104, 2, 16)).empty());
  const std::string rule =
      ", must be multiples of 16, because there is dropout: make the layout with a granule of 16";
  CHECK(refused(problem, ShardLayout::zigzag(104, 2, 8)) ==
        Strings{"layout.ranks[0] = split 24, first 0, second 48" + rule,
                "layout.ranks[1] = split 48, first 24, second 0" + rule});
  const Strings granule = refused(causal_problem(0), ShardLayout::zigzag(0, 2), {}, {0, 0});
  CHECK(granule ==
        Strings{"varlen = false, must be true if and only if there are documents: pass their cu_seqlens"});
}

TEST_CASE("context parallel: a rank that asks for something else is named") {
  if (cannot_run()) return;
  const auto found = refusals([](Communicator& own, Context& context) {
    AttentionProblem problem = causal_problem(64);
    if (own.rank() == 1) problem.window_left = 5;
    context.context_parallel_plan(problem, ShardLayout::zigzag(64, 2), own, {});
  });
  CHECK(found == std::vector<std::string>{R"(window_left of rank 1 = "5", must equal rank 0's, "null")"});
}

TEST_CASE("context parallel: wrong arguments are refused before anything is exchanged") {
  if (cannot_run()) return;
  on_two_ranks([](const Rank& rank) {
    const ShardCall& call = rank.call;
    const ContextParallelPlan plan = rank.plan({});
    AttentionArgs wrong = call.forward();
    wrong.q = nullptr;
    CHECK_THROWS_AS(plan.run(wrong), InvalidRequest);
    wrong = call.forward();
    wrong.query_pieces.split = 3;
    CHECK_THROWS_AS(plan.run(wrong), InvalidRequest);
    CHECK_THROWS_WITH_AS(plan.run_backward(call.backward({})),
                         doctest::Contains("gradients = absent, must be given to context_parallel_plan()"),
                         InvalidRequest);
    plan.run(call.forward());  // both ranks still agree on what comes next
  });
}

TEST_CASE("context parallel: both passes use the workspace that they are given") {
  if (cannot_run()) return;
  on_two_ranks([](const Rank& rank) {
    const ShardCall& call = rank.call;
    const ContextParallelPlan plan = rank.plan({.gradients = Gradients{}});
    DeviceBuffer workspace(plan.workspace_bytes());
    REQUIRE(workspace.size() > 0);
    const auto expect_used = [&] {
      const std::vector<std::uint8_t> bytes = downloaded<std::uint8_t>(workspace);
      CHECK(std::ranges::any_of(bytes, [](std::uint8_t byte) { return byte != 0xff; }));
    };
    workspace.fill(0xff);
    AttentionArgs forward = call.forward();
    forward.workspace = workspace.data();
    plan.run(forward);
    expect_used();
    workspace.fill(0xff);
    BackwardArgs backward = call.backward({});
    backward.workspace = workspace.data();
    plan.run_backward(backward);
    expect_used();
  });
}

TEST_CASE("context parallel: a call finds the plan that its communicator has, and makes none") {
  if (cannot_run()) return;
  on_two_ranks([](const Rank& rank) {
    const ShardCall& call = rank.call;
    const auto attend = [&] {
      rank.context.context_parallel_attention(rank.problem, call.forward(), rank.own);
    };
    CHECK_THROWS_WITH_AS(attend(), doctest::Contains("there is no plan for"), Unavailable);
    std::optional<ContextParallelPlan> plan =
        rank.plan({.gradients = Gradients{.determinism = Determinism::bitwise}});
    plan->run(call.forward());
    const reference::Tensor out = call.out();
    attend();
    CHECK(call.out().values == out.values);
    plan->run_backward(call.backward({}));
    const reference::Tensor dk = call.dk();
    rank.context.context_parallel_attention_backward(rank.problem, call.backward({}), rank.own);
    CHECK(call.dk().values == dk.values);
    plan.reset();
    CHECK_THROWS_AS(attend(), Unavailable);
  });
}

TEST_CASE("context parallel: where a rank leaves, the runs of others end with an error that names it") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  const ShardedCase of = sharded_cases(48, 1)[0];
  const GuardedBackward whole = whole_call(of);
  const ShardLayout layout = ShardLayout::zigzag(48, 3);
  ThreadGroup group(3, rank_threads(true, 5));
  const auto body = [&](Communicator& own) {
    const ScopedContext on_rank(device_under_test());
    const ContextParallelPlan plan = context.context_parallel_plan(of.problem, layout, own, {});
    if (own.rank() == 2) return;
    const ShardCall call(whole, layout.ranks[static_cast<std::size_t>(own.rank())], guarded_bshd);
    CHECK_THROWS_WITH_AS(plan.run(call.forward()), doctest::Contains("rank 2"), CommunicationError);
  };
  CHECK_THROWS_AS(group.run(body), CommunicationError);  // messages to rank 2 are left over
}
