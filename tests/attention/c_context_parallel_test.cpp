// Sharded attention through the C interface has the same bits as through the C++ interface.
#include <doctest/doctest.h>
#include <fa2/c_context_parallel.h>
#include <fa2/context_parallel.h>
#include <parallel/thread_group.h>
#include <runtime/device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "../support/c_calls.h"
#include "../support/c_ranks.h"
#include "../support/shards.h"

using namespace fa2;
using namespace fa2::test;

namespace {

fa2_problem c_problem(const AttentionProblem& p) {
  fa2_problem problem = FA2_PROBLEM_INIT;
  problem.dtype = FA2_BF16, problem.head_dim = p.head_dim, problem.mask = FA2_CAUSAL_BOTTOM_RIGHT;
  problem.heads_q = p.heads_q, problem.heads_kv = p.heads_kv;
  problem.seqlen_q = p.seqlen_q, problem.seqlen_k = p.seqlen_k;
  return problem;
}

Owned<fa2_shard_layout> c_layout(std::int64_t tokens, int ranks) {
  fa2_shard_layout* layout = nullptr;
  require_ok(fa2_shard_layout_create(FA2_LAYOUT_ZIGZAG, tokens, nullptr, 0, ranks, 16, &layout));
  return {layout, fa2_shard_layout_destroy};
}

}  // namespace

TEST_CASE("c context parallel: the bits of C++") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const ShardedCase of = sharded_cases(96, 1)[0];
  const GuardedBackward whole = whole_call(of);
  const CContext context = c_context();
  Context cpp(untuned());
  const ShardLayout layout = ShardLayout::zigzag(96, 2, 16);
  const Gradients gradients{.determinism = Determinism::bitwise};
  ThreadGroup(2, rank_threads(true, 2)).run([&](Communicator& own) {
    const ScopedContext on_rank(device_under_test());
    const Owned<fa2_communicator> communicator = c_communicator(own);
    const Owned<fa2_shard_layout> shards = c_layout(96, 2);
    fa2_context_parallel_options options = FA2_CONTEXT_PARALLEL_OPTIONS_INIT;
    options.gradients = FA2_ALL_GRADIENTS | FA2_BITWISE, options.groups = 2;
    const fa2_problem problem = c_problem(of.problem);
    fa2_context_parallel_plan* new_plan = nullptr;
    require_ok(fa2_context_parallel_plan_create(context.get(), &problem, shards.get(), nullptr, 0,
                                                communicator.get(), &options, FA2_CURRENT_DEVICE, &new_plan));
    const Owned<fa2_context_parallel_plan> plan{new_plan, fa2_context_parallel_plan_destroy};
    const auto& slices = layout.ranks[static_cast<std::size_t>(own.rank())];
    const ShardCall call(whole, slices, guarded_bshd), expected(whole, slices, guarded_bshd);
    const CCall c(call.backward(gradients));
    require_ok(fa2_context_parallel_plan_run(plan.get(), &c.forward, nullptr));
    require_ok(fa2_context_parallel_plan_run_backward(plan.get(), &c.args, nullptr));
    require_ok(fa2_communicator_check(communicator.get()));
    const ContextParallelPlan like =
        cpp.context_parallel_plan(of.problem, layout, own, {.groups = 2, .gradients = gradients});
    like.run(expected.forward());
    like.run_backward(expected.backward(gradients));
    CHECK(call.out().values == expected.out().values);
    CHECK(call.dq().values == expected.dq().values);
    CHECK(call.dk().values == expected.dk().values);
    CHECK(call.dv().values == expected.dv().values);
    std::size_t bytes = 0;
    require_ok(fa2_context_parallel_plan_workspace_bytes(plan.get(), &bytes));
    CHECK(bytes == like.workspace_bytes());
    char* json = nullptr;
    require_ok(fa2_context_parallel_plan_explain(plan.get(), &json));
    CHECK(std::string(json).find("\"scheme\": \"gather_heads\"") != std::string::npos);
    fa2_string_free(json);
  });
}

TEST_CASE("c context parallel: layouts of chunks, and of any slices") {
  const Owned<fa2_shard_layout> zigzag = c_layout(64, 2);
  const std::int64_t* borders = nullptr;
  std::size_t count = 0;
  require_ok(fa2_shard_layout_slices(zigzag.get(), 0, &borders, &count));
  CHECK(std::vector<std::int64_t>(borders, borders + 2 * count) == std::vector<std::int64_t>{0, 16, 48, 64});
  const std::size_t counts[] = {1, 0, 1};
  const std::int64_t slices[] = {5, 9, 0, 5};
  fa2_shard_layout* made = nullptr;
  require_ok(fa2_shard_layout_of_slices(9, 3, counts, slices, &made));
  const Owned<fa2_shard_layout> layout{made, fa2_shard_layout_destroy};
  require_ok(fa2_shard_layout_slices(layout.get(), 2, &borders, &count));
  CHECK(std::vector<std::int64_t>(borders, borders + 2 * count) == std::vector<std::int64_t>{0, 5});
  CHECK(fa2_shard_layout_slices(layout.get(), 3, &borders, &count) == FA2_INVALID_REQUEST);
  CHECK(std::string(fa2_last_error()).find("rank = 3, must be in 0..2") != std::string::npos);
  CHECK(fa2_shard_layout_of_slices(10, 3, counts, slices, &made) == FA2_INVALID_REQUEST);
  CHECK(made == nullptr);
}

TEST_CASE("c context parallel: a function that fails ends the call, and stays the communicator's error") {
  fa2_communicator_functions functions = FA2_COMMUNICATOR_FUNCTIONS_INIT;
  functions.size = 2;
  functions.all_gather = [](void*, const void*, size_t, void*) -> int32_t { return 7; };
  functions.peer_memory = 2;
  fa2_communicator* made = nullptr;
  CHECK(fa2_communicator_create(&functions, &made) == FA2_INVALID_REQUEST);
  CHECK(std::string(fa2_last_error()).find("exchange = NULL, must be a function") != std::string::npos);
  CHECK(std::string(fa2_last_error()).find("peer_memory = 2, must be 0 or 1") != std::string::npos);
  functions.peer_memory = 0;
  functions.exchange = [](void*, const fa2_transfer*, size_t, void*, uint64_t*) -> int32_t { return 1; };
  require_ok(fa2_communicator_create(&functions, &made));
  const Owned<fa2_communicator> communicator{made, fa2_communicator_destroy};
  CHECK(fa2_communicator_check(communicator.get()) == FA2_OK);
  const Owned<fa2_shard_layout> layout = c_layout(64, 2);
  const fa2_problem problem = c_problem(sharded_cases(64, 1)[0].problem);
  fa2_context_parallel_plan* plan = nullptr;
  CHECK(fa2_context_parallel_plan_create(nullptr, &problem, layout.get(), nullptr, 0, communicator.get(),
                                         nullptr, FA2_INTERPRETER_DEVICE, &plan) == FA2_COMMUNICATION);
  const std::string message = "all_gather of the caller's functions returned 7, must be 0";
  CHECK(std::string(fa2_last_error()).find(message) != std::string::npos);
  CHECK(fa2_communicator_check(communicator.get()) == FA2_COMMUNICATION);
  CHECK(std::string(fa2_last_error()).find(message) != std::string::npos);
}
