// A plan launches its steps in order, each with its own kernel, shape and memory.
#include <api/forward_step.h>
#include <api/plan.h>
#include <doctest/doctest.h>
#include <runtime/device.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

using namespace fa2;

namespace {

struct Launch {
  std::string kernel;
  std::uint32_t grid = 0;
  std::size_t params_size = 0;
  std::vector<MemoryRange> ranges;
};

class RecordingKernel final : public Kernel {
 public:
  RecordingKernel(std::string name, std::vector<Launch>& launches)
      : name_(std::move(name)), launches_(launches) {}

  void launch(const LaunchShape& shape, const void*, std::size_t params_size, Stream,
              const LaunchMemory* memory) const override {
    launches_.push_back({name_, shape.grid, params_size, memory->ranges()});
  }

 private:
  std::string name_;
  std::vector<Launch>& launches_;
};

AttentionProblem problem() {
  AttentionProblem p;
  p.head_dim = 64;
  p.heads_q = 2;
  p.seqlen_q = 16;
  p.seqlen_k = 32;
  return p.normalized();
}

/// Addresses far apart; nobody follows them.
AttentionArgs args_with_lse() {
  const auto at = [](std::uintptr_t gigabytes) { return reinterpret_cast<void*>(gigabytes << 30); };
  return bshd_args(problem(), at(1), at(2), at(3), at(4), static_cast<float*>(at(5)));
}

Step forward(const std::string& name, std::vector<Launch>& launches) {
  return forward_step(problem(), {}, std::make_shared<RecordingKernel>(name, launches), 4, nullptr);
}

/// "NAME:ACCESS" of each.
std::string text_of(const std::vector<MemoryRange>& ranges) {
  constexpr const char* kAccesses[] = {"read", "write", "read_write"};
  std::string text;
  for (const MemoryRange& range : ranges)
    text += (text.empty() ? "" : " ") + std::string(range.name) + ":" +
            kAccesses[static_cast<std::size_t>(range.access)];
  return text;
}

AttentionPlan plan_of(std::vector<Step> steps) {
  auto plan = std::make_shared<AttentionPlan::Impl>();
  plan->problem = {problem(), {}};
  plan->device = kInterpreterDevice;
  plan->steps = std::move(steps);
  return AttentionPlan(std::move(plan));
}

}  // namespace

TEST_CASE("steps: a forward touches every operand there is") {
  std::vector<Launch> launches;
  const AttentionPlan plan = plan_of({forward("forward", launches)});
  AttentionArgs args = args_with_lse();
  plan.run(args);
  args.lse = nullptr;
  plan.run(args);
  REQUIRE(launches.size() == 2);
  CHECK(text_of(launches[0].ranges) == "q:read k:read v:read o:write lse:write");
  CHECK(text_of(launches[1].ranges) == "q:read k:read v:read o:write");
  const MemoryRange& lse = launches[0].ranges[4];
  CHECK(lse.begin == reinterpret_cast<const std::byte*>(args_with_lse().lse));
  CHECK(lse.bytes == 2 * 16 * sizeof(float));
}

TEST_CASE("steps: each is launched in its turn, with what it uses alone") {
  std::vector<Launch> launches;
  Step second = forward("second", launches);
  second.shape.grid = 7;
  second.uses = {{Role::lse, Access::read}, {Role::o, Access::read_write}};
  second.fill = [](const Step&, const Call& call, ParamsBuffer& params) { params.emplace(call.args.lse); };
  plan_of({forward("first", launches), second}).run(args_with_lse());
  REQUIRE(launches.size() == 2);
  CHECK(launches[0].kernel == "first");
  CHECK(launches[1].kernel == "second");
  CHECK(launches[1].grid == 7);
  CHECK(launches[1].params_size == sizeof(float*));
  CHECK(text_of(launches[1].ranges) == "lse:read o:read_write");
}

TEST_CASE("steps: arguments that are wrong launch none of them") {
  std::vector<Launch> launches;
  const AttentionPlan plan = plan_of({forward("first", launches), forward("second", launches)});
  CHECK_THROWS_AS(plan.run(AttentionArgs{}), InvalidRequest);
  CHECK(launches.empty());
}

TEST_CASE("steps: a plan without any still judges its arguments") {
  auto plan = std::make_shared<AttentionPlan::Impl>();
  plan->problem = {problem(), {}};
  plan->problem.seqlen_q = 0;
  AttentionArgs args;
  CHECK_NOTHROW(AttentionPlan(plan).run(args));
  args.softmax_scale = INFINITY;
  CHECK_THROWS_AS(AttentionPlan(plan).run(args), InvalidRequest);
}
