// Key tiles that several thread blocks share (templates/attention/backward/key_parts.cuh), under the gradients'
// contract, with numbers of parts that no choice would make.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <generator/config_space.h>
#include <generator/kernel_kind.h>
#include <planning/backward.h>
#include <runtime/device.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../support/backward_cases.h"
#include "../support/gpu_backward.h"
#include "../support/mma_configs.h"
#include "../support/pairwise.h"
#include "../support/varlen.h"

using namespace fa2;
using namespace fa2::test;

namespace {

/// Returns a plan whose key tiles have up to `count` parts, each of one step or more.
BackwardPlan plan_in_parts(const AttentionProblem& problem, const KernelConfig& fused, std::int64_t count,
                           std::int64_t section_tiles) {
  BackwardScratch scratch = scratch_for(problem, fused, 0);
  scratch.parts = {.count = count, .steps = 1, .section_tiles = section_tiles};
  return plan_of_kernels(problem,
                         {config_on_every_gpu(KernelPass::delta), fused, conversion_of(fused).config},
                         scratch, device(device_under_test()).arch);
}

/// CHECKs the gradients, and that dK and dV have the same bits in a second run, whose scratch holds NaN.
void expect_gradients_in_parts(GuardedBackward& call, const KernelConfig& fused, std::int64_t count,
                               std::int64_t section_tiles) {
  INFO(to_string(call.forward.problem), " ", to_string(fused), ", ", count, " parts, sections of ",
       section_tiles);
  const BackwardPlan plan = plan_in_parts(call.forward.problem, fused, count, section_tiles);
  std::vector<std::uint16_t> bits[2];
  for (auto& of_run : bits) {
    run_after_nan(plan, call);
    for (const reference::Tensor& gradient : {call.dk(), call.dv()}) {
      const auto more = bits_of(gradient, call.forward.problem.dtype);
      of_run.insert(of_run.end(), more.begin(), more.end());
    }
  }
  CHECK(bits[0] == bits[1]);
}

constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left};
constexpr std::pair<std::int64_t, std::int64_t> kParts[] = {{2, 1}, {3, 2}, {7, 5}, {40, 3}};
constexpr std::pair<int, int> kHeads[] = {{1, 1}, {4, 2}, {5, 1}};
struct Window {
  std::optional<int> left = {}, right = {}, chunk = {};
};
constexpr Window kWindows[] = {{}, {.left = 70, .right = 5}, {.chunk = 90}};

/// CHECKs combinations of masks, parts, head groups, windows, head dims and lengths.
void check_parts(const std::vector<KernelConfig>& configs, const std::vector<int>& dims) {
  constexpr std::pair<int, int> kLengths[] = {{131, 197}, {260, 140}, {30, 300}};
  for (const Combination& c : pairwise({std::size(kMasks), std::size(kParts), std::size(kHeads),
                                        std::size(kWindows), dims.size(), std::size(kLengths)})) {
    AttentionProblem problem = grouped_problem(c[0] == 0 ? DType::f16 : DType::bf16, kMasks[c[0]], dims[c[4]],
                                               kLengths[c[5]].first, kLengths[c[5]].second);
    problem.heads_q = kHeads[c[2]].first, problem.heads_kv = kHeads[c[2]].second;
    problem.window_left = kWindows[c[3]].left, problem.window_right = kWindows[c[3]].right;
    problem.attention_chunk = kWindows[c[3]].chunk;
    GuardedBackward call(problem);
    if (c[3] == 1) call.give_d_lse();
    const KernelSpec spec{traits_of({problem.normalized(), {}}), configs[c[4]],
                          device(device_under_test()).arch};
    REQUIRE(why_rejected(spec).value_or("") == "");
    expect_gradients_in_parts(call, configs[c[4]], kParts[c[1]].first, kParts[c[1]].second);
  }
}

}  // namespace

TEST_CASE("backward parts: key tiles on wgmma have any number of parts") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  check_parts({parse_config("kernel=backward_sm90,tile_m=128,tile_n=128,warps=8,stages=2,pingpong=1"),
               parse_config("kernel=backward_sm90,tile_m=128,tile_n=64,warps=8,stages=2"),
               parse_config("kernel=backward_sm90,tile_m=64,tile_n=64,warps=8,stages=2"),
               parse_config("kernel=backward_sm90,tile_m=128,tile_n=64,warps=8,stages=2")},
              {64, 128, 128, 256});
}

TEST_CASE("backward parts: key tiles on mma.sync have any number of parts") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  check_parts({parse_config("kernel=backward_sm80,tile_m=64,tile_n=32,warps=4,stages=2,split_gradients=0"),
               parse_config("kernel=backward_sm80,tile_m=64,tile_n=16,warps=8,stages=2,split_gradients=1")},
              {64, 72});
}

TEST_CASE("backward parts: values wider and narrower than keys") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  for (const auto& [dim, dim_v] : {std::pair{64, 24}, std::pair{72, 128}}) {
    AttentionProblem problem = grouped_problem(DType::f16, MaskKind::none, dim, 131, 150);
    problem.head_dim_v = dim_v;
    GuardedBackward call(problem);
    for (const char* const config : {"kernel=backward_sm90,tile_m=64,tile_n=64,warps=8,stages=2",
                                     "kernel=backward_sm80,tile_m=64,tile_n=16,warps=8,split_gradients=1"}) {
      const KernelSpec spec{traits_of({problem.normalized(), {}}), parse_config(config),
                            device(device_under_test()).arch};
      if (why_rejected(spec)) continue;  // dQ tiles of 64 queries with narrow heads
      expect_gradients_in_parts(call, spec.config, 3, 4);
    }
  }
}

TEST_CASE("backward parts: packed sequences, of which some have fewer tiles and parts") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  const KernelConfig config = parse_config("kernel=backward_sm90,tile_m=64,tile_n=64,warps=8,stages=2");
  for (std::size_t i = 0; i < 4; ++i) {
    AttentionProblem problem = {
        .head_dim = 128, .mask = kMasks[i % 3], .heads_q = i == 1 ? 2 : 6, .heads_kv = 2};
    problem.varlen = true;
    GuardedBackward call = backward_of(problem, {{65, 7, 0, 200}, {97, 5, 9, 131}}, kPackings[i]);
    expect_gradients_in_parts(call, config, kParts[i].first, kParts[i].second);
  }
}

TEST_CASE("backward parts: dropout scales dV once") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem = grouped_problem(DType::bf16, MaskKind::causal_bottom_right, 128, 131, 197);
  problem.dropout = true;
  GuardedBackward call(problem);
  call.forward.args.dropout.probability = 0.3F;
  expect_gradients_in_parts(call, parse_config("kernel=backward_sm90,tile_m=64,tile_n=64,warps=8,stages=2"),
                            3, 2);
}
