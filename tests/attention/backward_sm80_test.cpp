// The fused backward on mma.sync (backward_sm80): one kernel for dQ, dK and dV, under the gradients'
// contract.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <generator/config_space.h>
#include <generator/kernel_kind.h>
#include <planning/backward.h>
#include <runtime/device.h>
#include <runtime/device_buffer.h>
#include <runtime/kernel.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../support/backward_cases.h"
#include "../support/captured_log.h"
#include "../support/config_spread.h"
#include "../support/gpu_backward.h"
#include "../support/mma_configs.h"
#include "../support/refusals.h"

using namespace fa2;
using namespace fa2::test;

namespace {

/// Returns a config that fits every head dim: half of the warps own dV, half dK.
KernelConfig split() {
  return default_config(KernelId::backward_sm80);
}

/// Returns a config whose warps each own rows of both dK and dV.
KernelConfig whole() {
  return parse_config("kernel=backward_sm80,tile_m=64,tile_n=32,warps=4,stages=2,split_gradients=0");
}

/// CHECKs the gradients' contract for this file's kernel.
void expect_gradients_with(const KernelConfig& config, const GuardedBackward& call) {
  INFO(to_string(call.forward.problem), " ", to_string(config));
  Context context(pinning(config));
  run_and_expect_gradients(context, call);
  const BackwardPlan plan = context.backward_plan(call.forward.problem, device_under_test(), {}, {});
  CHECK(plan.explain().kernels.at(1).config == config);
}

Expectation gradients_with(const KernelConfig& config) {
  return [config](const GuardedBackward& call) { expect_gradients_with(config, call); };
}

/// CHECKs every config that a search may try, each pinned. A config that would spill does not run.
void check_space(const AttentionProblem& problem) {
  std::vector<KernelConfig> all =
      config_space(traits_of({problem, {}}), device(device_under_test()).arch, KernelPass::dq_dk_dv).valid;
  std::erase_if(all, [](const KernelConfig& config) { return config.kernel != KernelId::backward_sm80; });
  GuardedBackward call(problem);
  std::size_t ran = 0;
  for (const KernelConfig& config : spread_over(all)) {
    call.upload();
    try {
      expect_gradients_with(config, call);
      ++ran;
    } catch (const KernelRefused& refused) {
      CHECK_MESSAGE(lacks_registers(refused.reason()), refused.reason());
    }
  }
  CHECK(ran > 0);
}

/// Returns a plan with kernels as rendered for GPUs before sm_90, which add single floats to the dQ
/// accumulator.
BackwardPlan plan_of_single_adds(const AttentionProblem& problem, const KernelConfig& summing) {
  Arch arch = device(device_under_test()).arch;
  arch.compute_capability = 80;
  return plan_of_kernels(
      problem, {config_on_every_gpu(KernelPass::delta), summing, config_on_every_gpu(KernelPass::dq_convert)},
      scratch_for(problem, summing, 0), arch);
}

}  // namespace

TEST_CASE("fused backward on mma.sync: every configuration computes f16 d64") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  check_space(grouped_problem(DType::f16, MaskKind::causal_bottom_right, 64, 131, 197));
}

TEST_CASE("fused backward on mma.sync: every configuration computes bf16 d128") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  check_space(grouped_problem(DType::bf16, MaskKind::causal_top_left, 128, 131, 197));
}

TEST_CASE("fused backward on mma.sync: every configuration computes f16 d72 with values of 40") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem = grouped_problem(DType::f16, MaskKind::none, 72, 131, 197);
  problem.head_dim_v = 40;
  problem.softcap = problem.alibi = true;
  check_space(problem);
}

TEST_CASE("fused backward on mma.sync: head dims of every width, with wider and narrower values") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left};
  int i = 0;
  for (const auto& [dim, dim_v] : std::vector<std::pair<int, int>>{
           {8, 8}, {40, 40}, {80, 80}, {256, 256}, {64, 24}, {40, 136}, {192, 8}}) {
    AttentionProblem problem =
        grouped_problem(i % 2 == 0 ? DType::f16 : DType::bf16, kMasks[i % 3], dim, 131, 150);
    problem.head_dim_v = dim_v;
    expect_gradients_with(split(), GuardedBackward(problem));
    ++i;
  }
}

TEST_CASE("fused backward on mma.sync: any number of queries and keys, with and without grouped heads") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  constexpr std::array<int, 2> kLengths[] = {{1, 1}, {1, 300}, {300, 1}, {64, 128}, {127, 129}, {33, 64}};
  constexpr std::array<int, 2> kHeads[] = {{1, 1}, {4, 1}, {3, 3}, {8, 2}};
  int i = 0;
  for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right}) {
    for (const auto& [seqlen_q, seqlen_k] : kLengths) {
      AttentionProblem problem = grouped_problem(DType::bf16, mask, 64, seqlen_q, seqlen_k);
      problem.heads_q = kHeads[i % 4][0], problem.heads_kv = kHeads[i % 4][1];
      GuardedBackward call(problem);
      if (i % 2 == 0) call.give_d_lse();
      call.upload();
      for (const KernelConfig& config : {split(), whole()}) {
        call.upload();
        expect_gradients_with(config, call);
      }
      ++i;
    }
  }
}

TEST_CASE("fused backward on mma.sync: windows hide keys from queries on both sides") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  struct Window {
    std::optional<std::int64_t> left = {}, right = {};
  };
  for (const Window& window : {Window{.left = 20}, Window{.right = 7}, Window{.left = 50, .right = 0},
                               Window{.left = 0, .right = 130}}) {
    for (const auto& [sq, sk] : std::vector<std::pair<int, int>>{{150, 300}, {300, 150}}) {
      AttentionProblem problem = grouped_problem(DType::f16, MaskKind::none, 64, sq, sk);
      problem.window_left = window.left, problem.window_right = window.right;
      GuardedBackward call(problem);
      for (const KernelConfig& config : {split(), whole()}) {
        call.upload();
        expect_gradients_with(config, call);
      }
    }
  }
}

TEST_CASE("fused backward on mma.sync: adds single floats if a GPU cannot add four") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  GuardedBackward call(grouped_problem(DType::bf16, MaskKind::causal_bottom_right, 72, 77, 129));
  for (const KernelConfig& config : {split(), whole()}) {
    run_after_nan(plan_of_single_adds(call.forward.problem, config), call);
  }
}

TEST_CASE("fused backward on mma.sync: dQ accumulators start at 0 in every call") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(pinning(split()));
  GuardedBackward call(grouped_problem(DType::f16, MaskKind::none, 64, 77, 129));
  const BackwardPlan plan = context.backward_plan(call.forward.problem, device_under_test(), {}, {});
  DeviceBuffer workspace(plan.workspace_bytes());
  workspace.fill(0xff);  // NaN
  for (int again = 0; again < 2; ++again) {
    call.upload();
    BackwardArgs args = call.args();
    args.workspace = workspace.data();
    plan.run(args);
    expect_gradients(call);
  }
}

TEST_CASE(
    "fused backward on mma.sync: keys beyond the last do not affect dQ if every score is very negative") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (const KernelConfig& config : {split(), whole()}) {
    for (const int seqlen_k : {1, 70}) expect_no_part_of_missing_keys(gradients_with(config), 64, seqlen_k);
  }
}

TEST_CASE(
    "fused backward on mma.sync: queries beyond the last do not affect dK and dV, whatever their bias") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (const KernelConfig& config : {split(), whole()})
    expect_no_part_of_missing_queries(gradients_with(config));
}

TEST_CASE("fused backward on mma.sync: the contents of keys that no query sees do not matter") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem = grouped_problem(DType::bf16, MaskKind::causal_bottom_right, 64, 40, 200);
  problem.window_left = 30;  // queries see keys 130 to 199
  GuardedBackward call(problem);
  for (reference::Tensor* tensor : {&call.forward.k, &call.forward.v})
    for_rows(*tensor, 0, 130, [](float& x) { x = std::nanf(""); });
  for (const KernelConfig& config : {split(), whole()}) {
    call.upload();
    expect_gradients_with(config, call);
    for (const reference::Tensor& gradient : {call.dq(), call.dk(), call.dv()}) CHECK(are_finite(gradient));
  }
}

TEST_CASE("fused backward on mma.sync: NaN in dO of one query reaches only its dQ and its keys' dK and dV") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(pinning(whole()));
  expect_nan_of_one_query(context, 192);
}

TEST_CASE("fused backward on mma.sync: large and negative scales, and gradients of any size") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  expect_any_scale_and_size(gradients_with(split()), 96);
}

TEST_CASE("fused backward on mma.sync: no bank conflicts") {
  if (cannot_run() || cannot_count_bank_conflicts()) return;
  const ScopedContext current(device_under_test());
  for (const auto& [dim, dim_v] : std::vector<std::pair<int, int>>{{64, 64}, {128, 128}, {72, 40}}) {
    AttentionProblem problem = grouped_problem(DType::f16, MaskKind::none, dim, 130, 100);
    problem.head_dim_v = dim_v;
    for (const int tile_n : {16, 32, 48, 64}) {
      for (KernelConfig config : {split(), whole()}) {
        config.tile_n = tile_n;
        CapturedLog logged;
        log().set_level(spdlog::level::info);
        expect_gradients_with(config, GuardedBackward(problem));
        CHECK_MESSAGE(!logged.has("bank conflict"), logged.text());
      }
    }
  }
}
