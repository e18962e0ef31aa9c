// A plan launches its steps in order, each with its own kernel, shape and memory.
#include <api/plan.h>
#include <doctest/doctest.h>
#include <planning/forward.h>
#include <runtime/device.h>
#include <tests/support/fake_kernels.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace fa2;
using namespace fa2::test;

namespace {

AttentionProblem problem() {
  AttentionProblem p;
  p.head_dim = 64;
  p.heads_q = 2;
  p.seqlen_q = 16;
  p.seqlen_k = 32;
  return p.normalized();
}

/// Returns pointers far apart, which no test dereferences.
AttentionArgs args_with_lse() {
  const auto at = [](std::uintptr_t gigabytes) { return reinterpret_cast<void*>(gigabytes << 30); };
  return bshd_args(problem(), at(1), at(2), at(3), at(4), static_cast<float*>(at(5)));
}

Step forward(const std::string& name, std::vector<Launch>& launches) {
  return forward_step(problem(), {}, std::make_shared<RecordingKernel>(name, launches), 4);
}

AttentionPlan plan_of(std::vector<Step> steps) {
  auto plan = std::make_shared<Plan>();
  plan->problem = {problem(), {}};
  plan->device = kInterpreterDevice;
  for (Step& step : steps) plan->add(std::move(step));
  return AttentionPlan(std::move(plan));
}

}  // namespace

TEST_CASE("steps: a forward uses every operand that is given") {
  std::vector<Launch> launches;
  const AttentionPlan plan = plan_of({forward("forward", launches)});
  AttentionArgs args = args_with_lse();
  plan.run(args);
  args.lse = nullptr;
  plan.run(args);
  REQUIRE(launches.size() == 2);
  CHECK(text_of(launches[0].ranges) == "q:read k:read v:read out:write lse:write");
  CHECK(text_of(launches[1].ranges) == "q:read k:read v:read out:write");
  const MemoryRange& lse = launches[0].ranges[4];
  CHECK(lse.begin == reinterpret_cast<const std::byte*>(args_with_lse().lse));
  CHECK(lse.bytes == 2 * 16 * sizeof(float));
}

TEST_CASE("steps: each is launched in turn, with only the operands that it uses") {
  std::vector<Launch> launches;
  Step second = forward("second", launches);
  second.shape.grid = 7;
  second.uses = {{Role::lse, Access::read}, {Role::out, Access::read_write}};
  second.fill = [](const Step&, const Call& call, ParamsBuffer& params) {
    params.emplace(call.args.as<AttentionArgs>().lse);
  };
  plan_of({forward("first", launches), second}).run(args_with_lse());
  REQUIRE(launches.size() == 2);
  CHECK(launches[0].kernel == "first");
  CHECK(launches[1].kernel == "second");
  CHECK(launches[1].grid == 7);
  CHECK(launches[1].params.size() == sizeof(float*));
  CHECK(text_of(launches[1].ranges) == "lse:read out:read_write");
}

/// Returns a step with `bytes` of counters, whose parameter points to them. `counters` provides them to calls
/// without a workspace.
Step working_in(std::size_t bytes, std::vector<Launch>& launches,
                std::shared_ptr<LaunchCounters> counters = nullptr) {
  Step step = forward("working", launches);
  step.uses = {{Role::out, Access::write}};
  step.fill = [](const Step&, const Call&, ParamsBuffer& params) {
    params.emplace(static_cast<const std::byte*>(nullptr));
  };
  step.counters.bytes = bytes;
  step.context_counters = std::move(counters);
  return step;
}

const std::byte* pointer_in(const Launch& launch) {
  const std::byte* pointer = nullptr;
  REQUIRE(launch.params.size() == sizeof pointer);
  std::memcpy(&pointer, launch.params.data(), sizeof pointer);
  return pointer;
}

TEST_CASE("steps: each has its own counters in the workspace") {
  std::vector<Launch> launches;
  const AttentionPlan plan = plan_of({working_in(4, launches), working_in(0, launches),
                                      working_in(1000, launches), working_in(256, launches)});
  CHECK(plan.workspace_bytes() == 256 + 0 + 1024 + 256);
  CHECK(plan_of({forward("forward", launches)}).workspace_bytes() == 0);
  AttentionArgs args = args_with_lse();
  args.workspace = reinterpret_cast<void*>(std::uintptr_t{6} << 30);
  const auto* const begin = static_cast<const std::byte*>(args.workspace);
  plan.run(args);
  REQUIRE(launches.size() == 4);
  const std::byte* const parts[] = {begin, nullptr, begin + 256, begin + 256 + 1024};
  const std::size_t bytes[] = {4, 0, 1000, 256};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(pointer_in(launches[i]) == parts[i]);
    CHECK(text_of(launches[i].ranges) == (i == 1 ? "out:write" : "out:write workspace:read_write"));
    const MemoryRange& last = launches[i].ranges.back();
    if (i == 1) continue;
    CHECK(last.begin == parts[i]);
    CHECK(last.bytes == bytes[i]);
  }
}

TEST_CASE("steps: without a workspace the context provides the counters, with one it does not") {
  const ScopedContext current(kInterpreterDevice);
  std::vector<Launch> launches;
  const auto counters = std::make_shared<LaunchCounters>();
  const std::uint32_t* const first = counters->take({}, nullptr);
  const AttentionPlan plan = plan_of({working_in(sizeof *first, launches, counters)});
  AttentionArgs args = args_with_lse();
  plan.run(args);
  args.workspace = reinterpret_cast<void*>(std::uintptr_t{6} << 30);
  plan.run(args);
  args.workspace = nullptr;
  plan.run(args);
  REQUIRE(launches.size() == 3);
  CHECK(pointer_in(launches[0]) == reinterpret_cast<const std::byte*>(first + 1));
  CHECK(pointer_in(launches[1]) == reinterpret_cast<const std::byte*>(std::uintptr_t{6} << 30));
  CHECK(pointer_in(launches[2]) == reinterpret_cast<const std::byte*>(first + 2));
  CHECK(text_of(launches[0].ranges) == "out:write launch counters:read_write");
  CHECK(text_of(launches[1].ranges) == "out:write workspace:read_write");
  CHECK(launches[1].ranges.back().bytes == sizeof *first);
}

TEST_CASE("steps: scratch lies behind the counters of a workspace; without one, it is the stream's memory") {
  const ScopedContext current(kInterpreterDevice);
  struct Pointers {
    const std::byte *counters, *scratch;
  };
  std::vector<Launch> launches;
  const auto counters = std::make_shared<LaunchCounters>(CounterSizes{.words = 8});
  const std::uint32_t* const first = counters->take({}, nullptr);
  Step step = working_in(8 * sizeof *first, launches, counters);
  step.fill = [](const Step&, const Call&, ParamsBuffer& params) { params.emplace(Pointers{}); };
  step.scratch = {.bytes = 1000, .param = offsetof(Pointers, scratch)};
  auto impl = std::make_shared<Plan>(plan_of({}).impl());
  impl->add(step);
  impl->scratch = std::make_shared<const ScratchPool>();
  const AttentionPlan plan(impl);
  CHECK(plan.workspace_bytes() == 256 + 1024);
  const auto pointers_in = [](const Launch& launch) {
    Pointers pointers{};
    REQUIRE(launch.params.size() == sizeof pointers);
    std::memcpy(&pointers, launch.params.data(), sizeof pointers);
    return pointers;
  };
  AttentionArgs args = args_with_lse();
  plan.run(args);
  args.workspace = reinterpret_cast<void*>(std::uintptr_t{6} << 30);
  plan.run(args);
  REQUIRE(launches.size() == 2);
  CHECK(pointers_in(launches[0]).counters == reinterpret_cast<const std::byte*>(first + 8));
  CHECK(pointers_in(launches[0]).scratch != nullptr);
  CHECK(text_of(launches[0].ranges) == "out:write workspace:read_write launch counters:read_write");
  CHECK(pointers_in(launches[1]).counters == static_cast<const std::byte*>(args.workspace));
  CHECK(pointers_in(launches[1]).scratch == static_cast<const std::byte*>(args.workspace) + 256);
  CHECK(text_of(launches[1].ranges) == "out:write workspace:read_write workspace:read_write");
}

TEST_CASE("steps: a plan that needs a workspace rejects a wrong one, others ignore it") {
  std::vector<Launch> launches;
  AttentionArgs args = args_with_lse();
  const AttentionPlan none = plan_of({forward("forward", launches)}),
                      some = plan_of({working_in(300, launches)});
  const auto at = [](std::uintptr_t address) { return reinterpret_cast<void*>(address); };
  const std::uintptr_t o = reinterpret_cast<std::uintptr_t>(args.out);
  for (const auto& [address, part] :
       {std::pair{o - 512 + 256, "must not overlap o"},
        {o - 512 + 4, "workspace = 0xfffffe04, must be a multiple of 256 bytes"}}) {
    args.workspace = at(address);
    CHECK_THROWS_WITH_AS(some.run(args), doctest::Contains(part), InvalidRequest);
    CHECK(launches.empty());
    none.run(args);
    CHECK(launches.size() == 1);
    launches.clear();
  }
  args.workspace = at(o - 512);
  some.run(args);
  CHECK(launches.size() == 1);
}

TEST_CASE("steps: with wrong arguments none is launched") {
  std::vector<Launch> launches;
  const AttentionPlan plan = plan_of({forward("first", launches), forward("second", launches)});
  CHECK_THROWS_AS(plan.run(AttentionArgs{}), InvalidRequest);
  CHECK(launches.empty());
}

TEST_CASE("steps: arguments of another operation are an error, not read as the step's own") {
  std::vector<Launch> launches;
  const Step step = forward("forward", launches);
  const AttentionProblem p = problem();
  const BackwardArgs args = backward_args(args_with_lse());
  const Operands operands = operands_of(p, args.forward);
  CHECK_THROWS_WITH_AS(launch(step, {.problem = p, .args = args, .operands = operands}, nullptr),
                       doctest::Contains("another operation's arguments"), Error);
  CHECK(launches.empty());
}

TEST_CASE("steps: a plan without steps still checks its arguments") {
  auto plan = std::make_shared<Plan>();
  plan->problem = {problem(), {}};
  plan->problem.seqlen_q = 0;
  AttentionArgs args;
  CHECK_NOTHROW(AttentionPlan(plan).run(args));
  args.softmax_scale = INFINITY;
  CHECK_THROWS_AS(AttentionPlan(plan).run(args), InvalidRequest);
}
