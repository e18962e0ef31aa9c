// AttentionProblem::sm_margin: the blocks of launches, the parts of key tiles, and what reports say.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <operation/rules/validate.h>
#include <planning/backward.h>
#include <planning/forward.h>
#include <planning/key_parts.h>
#include <planning/widened_keys.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <templates/attention/common/params.cuh>
#include <utility>
#include <vector>

using namespace fa2;

namespace {

constexpr int kHopper = 132;

/// Makes plans of kernels that are only named.
struct Fixture {
  Planner planner(const PlannedProblem& planned, const char* arch, int sm_count = kHopper) {
    Planner planner{.problem = planned.normalized(),
                    .target = {*find_arch(arch), "Some GPU", sm_count},
                    .chooser = chooser,
                    .get = {},
                    .alternatives = {}};
    planner.get = [](const KernelSpec&) { return LoadedKernel(); };
    planner.alternatives = [](const PlannedProblem&, const ConfigChoice&) {
      return std::vector<ConfigChoice>();
    };
    return planner;
  }
  Plan forward(std::int32_t margin, const char* arch = "sm_90a", const char* pin = "") {
    settings.pinned = *pin != 0 ? std::optional(parse_config(pin)) : std::nullopt;
    problem.sm_margin = margin;
    return plan_forward(planner({problem, {}}, arch), "");
  }
  std::uint32_t grid(std::int32_t margin, const char* pin) {
    return forward(margin, "sm_90a", pin).steps.at(0).shape.grid;
  }

  ChoiceSettings settings{.tune = TuneMode::off};
  TuningStore store{""};
  ConfigChooser chooser{settings, store};
  AttentionProblem problem{
      .dtype = DType::bf16, .head_dim = 128, .batch = 4, .heads_q = 32, .seqlen_q = 4096, .seqlen_k = 4096};
};

constexpr const char* kDynamic =
    "kernel=forward_sm90,tile_m=128,tile_n=128,warps=8,stages=2,q_buffers=1,schedule=2,overlap=1";
constexpr const char* kStatic =
    "kernel=forward_sm90,tile_m=128,tile_n=128,warps=8,stages=2,q_buffers=1,schedule=1,overlap=1";
constexpr const char* kOneTile =
    "kernel=forward_sm90,tile_m=128,tile_n=128,warps=8,stages=2,q_buffers=1,schedule=0,overlap=1";
constexpr const char* kSplit90 =
    "kernel=forward_sm90,tile_m=64,tile_n=64,warps=4,stages=4,ctas_per_sm=2,q_buffers=1,schedule=3,overlap=1";
constexpr const char* kSplitWarps = "kernel=forward_split,tile_m=16,tile_n=16,warps=4,stages=2,ctas_per_sm=2";

/// Returns the rule that `f` breaks; empty if it breaks none.
template <class Function>
std::string refusal_of(const Function& f) {
  try {
    f();
  } catch (const InvalidRequest& error) {
    return to_string(error.violations().at(0));
  }
  return "";
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "sm_margin: persistent kernels launch blocks for the other SMs alone") {
  for (const char* const pin : {kDynamic, kStatic}) {
    CHECK(grid(0, pin) == 132);
    CHECK(grid(8, pin) == 124);
    CHECK(grid(131, pin) == 1);
  }
  for (const char* const pin : {kSplit90, kSplitWarps}) {
    CHECK(grid(0, pin) == 264);
    CHECK(grid(8, pin) == 248);
    CHECK(grid(131, pin) == 2);
  }
  CHECK(grid(8, kOneTile) == grid(0, kOneTile));
  problem.seqlen_q = 128, problem.batch = 1;
  CHECK(grid(8, kDynamic) == 32);  // fewer tiles than SMs are left
}

TEST_CASE_FIXTURE(Fixture, "sm_margin: split KV counts with the SMs that are left") {
  problem.seqlen_q = 1;
  const Plan all = forward(0, "sm_90a", kSplit90), fewer = forward(32, "sm_90a", kSplit90);
  CHECK(all.steps.at(0).constants.as<AttentionParamsSm90>().shares.block_count == 264);
  CHECK(fewer.steps.at(0).constants.as<AttentionParamsSm90>().shares.block_count == 200);
  CHECK(fewer.workspace.scratch_bytes < all.workspace.scratch_bytes);
  const Plan warps = forward(32, "sm_80", kSplitWarps);
  CHECK(warps.steps.at(0).constants.as<AttentionParamsSplit>().shares.block_count == 200);
}

TEST_CASE_FIXTURE(Fixture,
                  "sm_margin: the heuristic's kernels on Hopper are persistent, and it chooses the same") {
  for (const std::int64_t queries : {1, 64, 1024, 8192}) {
    problem.seqlen_q = queries;
    const Plan all = forward(0), fewer = forward(20);
    CHECK(fewer.explanation.kernels.at(0).config == all.explanation.kernels.at(0).config);
    CHECK(fewer.explanation.kernels.at(0).is_persistent);
    CHECK(fewer.explanation.notes.empty());
  }
}

TEST_CASE_FIXTURE(Fixture, "sm_margin: a plan says which kernels it does not limit") {
  CHECK(forward(0, "sm_80").explanation.notes.empty());
  const Explanation e = forward(8, "sm_80").explanation;
  CHECK_FALSE(e.kernels.at(0).is_persistent);
  CHECK(e.notes ==
        "sm_margin = 8 does not limit forward_sm80, which launches a block per tile: any SM may run one");
  problem.sm_margin = 3;
  const Explanation backward = plan_backward(planner({problem, {}}, "sm_90a"), {}, "").explanation;
  CHECK(backward.kernels.size() == 3);
  for (const KernelReport& kernel : backward.kernels) {
    CHECK_FALSE(kernel.is_persistent);
    const std::string note = "sm_margin = 3 does not limit " + std::string(to_string(kernel.config.kernel));
    CHECK(backward.notes.find(note) != std::string::npos);
  }
}

TEST_CASE_FIXTURE(Fixture, "sm_margin: a plan of two steps says so of both") {
  problem.kv_type = KvType::e4m3;
  const Plan plan = forward(8);
  CHECK(plan.steps.at(1).shape.grid % 124 == 0);
  CHECK(plan.explanation.notes ==
        "sm_margin = 8 does not limit widen, which launches a block per tile: any SM may run one");
}

TEST_CASE_FIXTURE(Fixture, "sm_margin: key tiles have the parts of a GPU with as many SMs as are left") {
  AttentionProblem few{.dtype = DType::bf16, .head_dim = 128, .heads_q = 14, .heads_kv = 2};
  few.seqlen_q = few.seqlen_k = 2048;
  std::vector<std::int64_t> counts;
  for (const std::int32_t margin : {0, 66, 124}) {
    few.sm_margin = margin;
    const Plan plan = plan_backward(planner({few, {}}, "sm_90a"), {}, "");
    const BackwardParamsSm90& params = plan.steps.at(1).constants.as<BackwardParamsSm90>();
    const auto parts = key_parts(few.normalized(), plan.steps[1].config, kHopper - margin);
    CHECK(params.backward.part_steps == parts.steps);
    counts.push_back(parts.count);
  }
  CHECK(counts.front() > counts.back());
}

TEST_CASE_FIXTURE(Fixture, "sm_margin: bitwise gradients have no parts, whatever it is") {
  problem.batch_invariant = true;
  const Gradients bitwise{.determinism = Determinism::bitwise};
  const auto grids = [&](std::int32_t margin) {
    problem.sm_margin = margin;
    std::vector<std::uint32_t> all;
    for (const Step& step : plan_backward(planner({problem, {}}, "sm_90a"), bitwise, "").steps)
      all.push_back(step.shape.grid);
    return all;
  };
  CHECK(grids(0) == grids(100));
}

TEST_CASE_FIXTURE(Fixture, "sm_margin: must leave the device an SM") {
  CHECK(refusal_of([&] { forward(132); }) == "sm_margin = 132, must be in 0..131: the device has 132 SMs");
  problem.sm_margin = 500;
  CHECK(refusal_of([&] {
          plan_backward(planner({problem, {}}, "sm_90a"), {}, "");
        }) == "sm_margin = 500, must be in 0..131: the device has 132 SMs");
  CHECK_NOTHROW(plan_forward(planner({problem, {}}, "sm_90a", 0), ""));  // of an unknown device
  problem.sm_margin = -1;
  const std::vector<Violation> found = violations_of(problem);
  REQUIRE(found.size() == 1);
  CHECK(to_string(found[0]) == "sm_margin = -1, must be at least 0, and less than the SMs of the device");
}
