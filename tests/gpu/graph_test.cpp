// Graphs hold counters of the context and return them when they are destroyed; with the caller's workspace
// they hold none.
#include <api/context.h>
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/errors.h>
#include <runtime/device.h>
#include <runtime/device_buffer.h>
#include <runtime/driver.h>
#include <runtime/graph.h>
#include <runtime/launch_counters.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "../support/captured_graph.h"
#include "../support/gpu_attention.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr std::uint32_t kCounters = 4;

AttentionProblem small_problem() {
  return grouped_problem(DType::f16, MaskKind::causal_bottom_right, 64, 130, 200);
}

/// Returns options for kernels that count tiles.
ContextOptions counting() {
  ContextOptions options = untuned();
  options.config = parse_config(
      "kernel=forward_sm90,tile_m=64,tile_n=64,warps=4,stages=4,ctas_per_sm=2,q_buffers=2,schedule=2");
  return options;
}

/// Gives the context kCounters counter slots for graphs.
std::shared_ptr<LaunchCounters> few_counters(Context& context) {
  return context.impl().counters.get(
      {0, 1}, [] { return std::make_shared<LaunchCounters>(CounterSizes{.for_graphs = kCounters}); });
}

/// Waits until the condition holds. After a graph's destruction, CUDA destroys the objects that it held on a
/// thread of its own.
bool soon(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// Returns how many counter slots are free.
std::size_t free_counters(LaunchCounters& counters) {
  std::vector<std::shared_ptr<std::uint32_t>> lent;
  try {
    for (;;) lent.push_back(counters.lend());
  } catch (const Unavailable&) {
    return lent.size();
  }
}

bool is_zero(const void* device_memory, std::size_t size) {
  std::vector<std::byte> bytes(size);
  fa2::check(driver().memcpy_dtoh(bytes.data(), reinterpret_cast<CUdeviceptr>(device_memory), size),
             "cuMemcpyDtoH");
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

/// Launches the graph twice, with different inputs, and CHECKs the results.
void expect_contract_of(const CapturedGraph& graph, const OwnedStream& stream,
                        const std::vector<GuardedCall*>& calls) {
  for (const unsigned seed : {100u, 200u}) {
    for (GuardedCall* const call : calls) call->randomize(seed);
    graph.launch();
    stream.synchronize();
    for (const GuardedCall* const call : calls) expect_contract(*call);
  }
}

}  // namespace

TEST_CASE("a graph keeps an object until it and its executable are destroyed and have run") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  const OwnedStream stream;
  CHECK(capture_of(stream.get()).graph == nullptr);
  CHECK(capture_of(nullptr).graph == nullptr);
  const auto object = std::make_shared<int>(1);
  std::optional<CapturedGraph> graph(stream.get());
  DeviceBuffer memory(1024);
  graph->begin();
  CHECK(capture_of(stream.get()).graph != nullptr);
  keep_with(capture_of(stream.get()).graph, object);
  memory.fill(7, stream.get());  // the graph must not be empty
  graph->end();
  CHECK(capture_of(stream.get()).graph == nullptr);
  CHECK(object.use_count() == 2);
  graph->destroy_capture();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(object.use_count() == 2);
  graph->launch();
  graph.reset();
  CHECK(soon([&] { return object.use_count() == 1; }));
  stream.synchronize();
}

TEST_CASE("a capture that is abandoned releases its object") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  const OwnedStream stream;
  const auto object = std::make_shared<int>(1);
  {
    CapturedGraph graph(stream.get());
    graph.begin();
    keep_with(capture_of(stream.get()).graph, object);
    CHECK(object.use_count() == 2);
  }
  CHECK(soon([&] { return object.use_count() == 1; }));
}

TEST_CASE("graphs are created and destroyed more often than there are counters") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(0);
  Context context(counting());
  const auto counters = few_counters(context);
  GuardedCall first(small_problem()), second(small_problem());
  const AttentionPlan plan = context.plan(first.problem);
  const OwnedStream stream;
  for (std::uint32_t i = 0; i < 20 * kCounters; ++i) {
    stream.synchronize();
    REQUIRE(soon([&] { return free_counters(*counters) == kCounters; }));
    CapturedGraph graph(stream.get());
    graph.begin();
    plan.run(first.args, stream.get());
    context.attention(second.problem, second.args, stream.get());
    graph.end();
    expect_contract_of(graph, stream, {&first, &second});
    graph.launch();  // the graph is destroyed while it runs
  }
  stream.synchronize();
  CHECK(soon([&] { return free_counters(*counters) == kCounters; }));
  CHECK(is_zero(counters->memory().begin, counters->memory().bytes));
}

TEST_CASE(
    "if graphs hold every counter, a capture fails until one is destroyed; with a workspace it needs none") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(0);
  Context context(counting());
  const auto counters = few_counters(context);
  GuardedCall call(small_problem()), other(small_problem());
  const AttentionPlan plan = context.plan(call.problem);
  REQUIRE(plan.workspace_bytes() > 0);
  DeviceBuffer workspace(plan.workspace_bytes());
  workspace.fill(0);
  AttentionArgs with_workspace = other.args;
  with_workspace.workspace = workspace.data();
  const OwnedStream stream;

  std::vector<std::unique_ptr<CapturedGraph>> holders;
  for (std::uint32_t i = 0; i < kCounters; ++i) {
    CapturedGraph& holder = *holders.emplace_back(std::make_unique<CapturedGraph>(stream.get()));
    holder.begin();
    plan.run(call.args, stream.get());  // all launches of a capture share counters
    context.attention(call.problem, call.args, stream.get());
    for (int j = 0; j < 3; ++j) plan.run(with_workspace, stream.get());
    holder.end();
  }
  expect_contract_of(*holders.front(), stream, {&call, &other});
  CHECK(is_zero(workspace.data(), workspace.size()));

  {
    CapturedGraph graph(stream.get());
    graph.begin();
    CHECK_THROWS_AS(plan.run(call.args, stream.get()), Unavailable);
    CHECK_THROWS_AS(context.attention(call.problem, call.args, stream.get()), Unavailable);
    plan.run(with_workspace, stream.get());
    graph.end();
    for (int i = 0; i < 5; ++i) expect_contract_of(graph, stream, {&other});
    CHECK(is_zero(workspace.data(), workspace.size()));
  }
  call.upload();
  plan.run(call.args, stream.get());  // an ordinary launch needs none of them
  stream.synchronize();
  expect_contract(call);

  for (const auto& holder : holders) holder->destroy_capture();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(free_counters(*counters) == 0);  // the graphs' executables hold them
  for (const auto& holder : holders) expect_contract_of(*holder, stream, {&call, &other});
  holders.clear();
  CHECK(soon([&] { return free_counters(*counters) == kCounters; }));
}

TEST_CASE("a graph is destroyed after its plan and context, without harm") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(0);
  const OwnedStream stream;
  std::optional<CapturedGraph> graph(stream.get());
  std::weak_ptr<LaunchCounters> counters;
  {
    Context context(counting());
    counters = few_counters(context);
    GuardedCall call(small_problem());
    const AttentionPlan plan = context.plan(call.problem);
    graph->begin();
    plan.run(call.args, stream.get());
    graph->end();
    expect_contract_of(*graph, stream, {&call});
  }
  CHECK(counters.expired());
  graph.reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // let CUDA's thread run
  GuardedCall call(small_problem());
  Context context(counting());
  run_and_expect_contract(context, call);
}

TEST_CASE("a captured graph reads dropout's seed and offset in each launch") {
  if (cannot_run()) return;
  const ScopedContext current(0);
  Context context(untuned());
  AttentionProblem problem = small_problem();
  problem.dropout = true;
  GuardedCall call(problem);
  call.dropout_state = {1, 1};
  call.upload();
  run_and_expect_contract(context, call);  // makes the plan
  const OwnedStream stream;
  CapturedGraph graph(stream.get());
  graph.begin();
  context.attention(problem, call.args, stream.get());
  graph.end();
  for (const std::uint64_t offset : {2u, 3u}) {
    call.dropout_state = {7, offset};
    expect_contract_of(graph, stream, {&call});
  }
}
