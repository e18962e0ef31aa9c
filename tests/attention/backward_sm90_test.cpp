// The fused backward on wgmma (backward_sm90): one kernel for dQ, dK and dV, under the gradients' contract.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <generator/config_space.h>
#include <generator/kernel_kind.h>
#include <runtime/device.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../support/backward_cases.h"
#include "../support/captured_log.h"
#include "../support/config_spread.h"
#include "../support/gpu_backward.h"
#include "../support/refusals.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr KernelId kSumming = KernelId::backward_sm90;

/// CHECKs the gradients' contract for this file's kernel.
void expect_gradients_of_one_kernel(Context& context, const GuardedBackward& call) {
  INFO(to_string(call.forward.problem));
  run_and_expect_gradients(context, call);
  const BackwardPlan plan = context.backward_plan(call.forward.problem, device_under_test(), {}, {});
  CHECK(plan.explain().kernels.at(1).config.kernel == kSumming);
}

Expectation gradients_of_one_kernel(Context& context) {
  return [&](const GuardedBackward& call) { expect_gradients_of_one_kernel(context, call); };
}

/// CHECKs every config that a search may try, each pinned. A config that spills or serialises its wgmmas does
/// not run.
void check_space(const AttentionProblem& problem) {
  const Arch& arch = device(device_under_test()).arch;
  GuardedBackward call(problem);
  std::size_t ran = 0;
  for (const KernelConfig& config :
       spread_over(config_space(traits_of({problem, {}}), arch, KernelPass::dq_dk_dv).valid)) {
    INFO(to_string(config));
    Context context(pinning(config));
    call.upload();
    try {
      run_and_expect_gradients(context, call);
    } catch (const KernelRefused& refused) {
      CHECK_MESSAGE(lacks_registers(refused.reason()), refused.reason());
      continue;
    }
    const BackwardPlan plan = context.backward_plan(problem, device_under_test(), {}, {});
    CHECK(plan.explain().kernels.at(1).config == config);
    CHECK(plan.explain().kernels.at(1).config_origin == ConfigOrigin::pinned);
    ++ran;
  }
  CHECK(ran > 0);
}

}  // namespace

TEST_CASE("backward on wgmma: every configuration computes f16 d64") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  check_space(grouped_problem(DType::f16, MaskKind::causal_bottom_right, 64, 131, 197));
}

TEST_CASE("backward on wgmma: every configuration computes bf16 d128") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  check_space(grouped_problem(DType::bf16, MaskKind::causal_bottom_right, 128, 131, 197));
}

TEST_CASE("backward on wgmma: every configuration computes bf16 d256, whose tiles two blocks share") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  check_space(grouped_problem(DType::bf16, MaskKind::causal_bottom_right, 256, 131, 197));
}

TEST_CASE("backward on wgmma: every configuration computes f16 d72 with values of 40") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem = grouped_problem(DType::f16, MaskKind::none, 72, 131, 197);
  problem.head_dim_v = 40;
  problem.softcap = problem.alibi = true;
  check_space(problem);
}

TEST_CASE("backward on wgmma: a warp adds dQ in bulk, with every way to share the work") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  int heads_q = 1;
  for (const char* const tiles :
       {"tile_n=128,stages=2,pingpong=1", "tile_n=64,stages=3,pingpong=2", "tile_m=64,tile_n=128,stages=2"}) {
    const KernelConfig config = parse_config(std::string("kernel=backward_sm90,bulk_sums=1,") + tiles);
    Context context(pinning(config));
    for (const int head_dim : {64, 40}) {
      AttentionProblem problem =
          grouped_problem(DType::bf16, MaskKind::causal_bottom_right, head_dim, 300, 290);
      problem.heads_q = heads_q++ % 3 + 1, problem.heads_kv = 1;
      const GuardedBackward call(problem);
      expect_gradients_of_one_kernel(context, call);
      const BackwardPlan plan = context.backward_plan(problem, device_under_test(), {}, {});
      CHECK(plan.explain().kernels.at(1).config == config);
    }
  }
}

TEST_CASE("backward on wgmma: head dims of every width, with wider and narrower values") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left};
  int i = 0;
  for (const auto& [dim, dim_v] : std::vector<std::pair<int, int>>{{8, 8},
                                                                   {40, 40},
                                                                   {64, 64},
                                                                   {72, 72},
                                                                   {80, 80},
                                                                   {96, 96},
                                                                   {128, 128},
                                                                   {192, 128},
                                                                   {136, 200},
                                                                   {208, 208},
                                                                   {256, 256},
                                                                   {64, 24},
                                                                   {40, 72},
                                                                   {96, 64},
                                                                   {128, 8}}) {
    AttentionProblem problem =
        grouped_problem(i % 2 == 0 ? DType::f16 : DType::bf16, kMasks[i % 3], dim, 131, 150);
    problem.head_dim_v = dim_v;
    expect_gradients_of_one_kernel(context, GuardedBackward(problem));
    ++i;
  }
}

TEST_CASE("backward on wgmma: any number of queries and keys, with and without grouped heads") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  constexpr std::array<int, 2> kLengths[] = {{1, 1},     {1, 300},   {300, 1},  {64, 128},
                                             {127, 129}, {128, 385}, {257, 64}, {65, 640}};
  constexpr std::array<int, 2> kHeads[] = {{1, 1}, {4, 1}, {3, 3}, {8, 2}};
  int i = 0;
  for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right}) {
    for (const auto& [seqlen_q, seqlen_k] : kLengths) {
      AttentionProblem problem = grouped_problem(DType::bf16, mask, 64, seqlen_q, seqlen_k);
      problem.heads_q = kHeads[i % 4][0], problem.heads_kv = kHeads[i % 4][1];
      GuardedBackward call(problem);
      if (i % 2 == 0) call.give_d_lse();
      call.upload();
      expect_gradients_of_one_kernel(context, call);
      ++i;
    }
  }
}

TEST_CASE("backward on wgmma: more key tiles than run at once") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  AttentionProblem problem = grouped_problem(DType::f16, MaskKind::causal_bottom_right, 64, 200, 1100);
  if (device_under_test() == kInterpreterDevice) {
    problem.batch = 1;
  } else {
    problem.batch = 16, problem.heads_q = 16, problem.heads_kv = 4;  // 9 * 64 tiles
  }
  GuardedBackward call(problem);
  expect_gradients_of_one_kernel(context, call);
  for (const char* const in_bulk : {"tile_n=128,stages=2,pingpong=1", "tile_n=64,stages=3,pingpong=2"}) {
    Context adding(pinning(parse_config(std::string("kernel=backward_sm90,bulk_sums=1,") + in_bulk)));
    call.upload();
    expect_gradients_of_one_kernel(adding, call);
  }
  problem.head_dim = 256;
  if (device_under_test() != kInterpreterDevice)
    problem.batch = 4, problem.heads_q = 8;  // 9 * 16, of two blocks each
  expect_gradients_of_one_kernel(context, GuardedBackward(problem));
}

TEST_CASE("backward on wgmma: windows hide keys from queries on both sides") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  struct Window {
    std::optional<std::int64_t> left = {}, right = {};
  };
  int dim = 64;
  for (const Window& window : {Window{.left = 20}, Window{.right = 7}, Window{.left = 50, .right = 0},
                               Window{.left = 0, .right = 130}}) {
    for (const auto& [sq, sk] : std::vector<std::pair<int, int>>{{150, 300}, {300, 150}}) {
      AttentionProblem problem = grouped_problem(DType::f16, MaskKind::none, dim, sq, sk);
      problem.window_left = window.left, problem.window_right = window.right;
      expect_gradients_of_one_kernel(context, GuardedBackward(problem));
    }
    dim = dim == 256 ? 64 : 2 * dim;
  }
}

TEST_CASE("backward on wgmma: keys beyond the last do not affect dQ if every score is very negative") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (const int dim : {64, 128}) {
    for (const int seqlen_k : {1, 70, 129})
      expect_no_part_of_missing_keys(gradients_of_one_kernel(context), dim, seqlen_k);
  }
}

TEST_CASE("backward on wgmma: queries beyond the last do not affect dK and dV, whatever their bias") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  expect_no_part_of_missing_queries(gradients_of_one_kernel(context));
}

TEST_CASE("backward on wgmma: a missing query does not affect dK and dV, whatever lies behind a tensor") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (const int seqlen_q : {1, 63, 65, 129}) {
    const AttentionProblem problem = grouped_problem(DType::bf16, MaskKind::none, 128, seqlen_q, 130);
    GuardedBackward call(problem, backward_layouts_of(problem, guarded_bhsd));  // NaN behind the last head
    expect_gradients_of_one_kernel(context, call);
  }
}

TEST_CASE("backward on wgmma: large and negative scales, and gradients of any size") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (const int dim : {64, 96}) expect_any_scale_and_size(gradients_of_one_kernel(context), dim);
}

TEST_CASE("backward on wgmma: NaN in dO of one query reaches only its dQ and its keys' dK and dV") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  expect_nan_of_one_query(context, 256);
}

// The padding rows of the last query tile must not use the first query's dO either.
TEST_CASE("backward on wgmma: NaN in dO of the first query stays within its window") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  AttentionProblem problem = grouped_problem(DType::f16, MaskKind::causal_top_left, 64, 300, 300);
  problem.window_left = 20;
  GuardedBackward call(problem);
  call.d_out.at(0, 0, 0, 3) = std::nanf("");  // this query sees key 0
  call.upload();
  context.attention_backward(problem, call.args());
  CHECK(std::isnan(call.dq().at(0, 0, 0, 0)));
  CHECK(std::isnan(call.dk().at(0, 0, 0, 0)));
  CHECK(are_finite(call.dk(), 1, 300));    // dS of a hidden pair is 0
  CHECK(are_finite(call.dv(), 256, 300));  // 0 * dO of a hidden pair is NaN within the tile
}

TEST_CASE("backward on wgmma: key tiles that add to dQ in order give the same bits in every run") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  struct Case {
    int dim, seqlen_q, seqlen_k;
    std::optional<std::int64_t> left = {};
    MaskKind mask = MaskKind::none;
  };
  constexpr MaskKind kCausal = MaskKind::causal_bottom_right;
  for (const Case& c :
       {Case{64, 300, 650}, Case{64, 650, 650, {}, kCausal}, Case{64, 400, 300, {}, kCausal},
        Case{64, 500, 600, 100, kCausal}, Case{128, 150, 400}, Case{128, 300, 400, {}, kCausal},
        Case{128, 300, 400, 20, kCausal}, Case{256, 130, 200}, Case{256, 300, 400, {}, kCausal},
        Case{192, 200, 400, 20, kCausal}}) {
    AttentionProblem problem = grouped_problem(DType::f16, c.mask, c.dim, c.seqlen_q, c.seqlen_k);
    problem.window_left = c.left;
    if (device_under_test() == kInterpreterDevice)
      problem.batch = 1, problem.heads_q = 2, problem.heads_kv = 1;
    GuardedBackward call(problem);
    call.determinism = Determinism::bitwise;
    INFO(to_string(problem));
    run_and_expect_gradients(context, call);
    const auto bits = bits_of(call.dq(), problem.dtype);
    for (int again = 0; again < 2; ++again) {
      call.upload();
      context.attention_backward(problem, call.args());
      CHECK((bits_of(call.dq(), problem.dtype) == bits));
    }
    const BackwardPlan plan =
        context.backward_plan(problem, device_under_test(), {.determinism = Determinism::bitwise}, {});
    CHECK(plan.explain().kernels.at(1).config.kernel == KernelId::backward_ordered_sm90);
  }
}

TEST_CASE("backward on wgmma: no bank conflicts") {
  if (cannot_run_sm_90a() || cannot_count_bank_conflicts()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (const auto& [dim, dim_v] :
       std::vector<std::pair<int, int>>{{64, 64}, {128, 128}, {72, 40}, {256, 256}}) {
    AttentionProblem problem = grouped_problem(DType::f16, MaskKind::none, dim, 130, 100);
    problem.head_dim_v = dim_v;
    CapturedLog logged;
    log().set_level(spdlog::level::info);
    expect_gradients_of_one_kernel(context, GuardedBackward(problem));
    CHECK_MESSAGE(!logged.has("bank conflict"), logged.text());
  }
}
