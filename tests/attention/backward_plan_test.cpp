// Plans of attention_backward(): their kernels, their workspace, and configs that the heuristic never picks.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <fa2/errors.h>
#include <generator/kernel_kind.h>
#include <runtime/device.h>
#include <tests/support/temporary_directory.h>

#include <cstdint>
#include <string>
#include <vector>

#include "../support/gpu_backward.h"

using namespace fa2;
using namespace fa2::test;

namespace {

AttentionProblem problem_of(int head_dim) {
  return {.dtype = DType::bf16,
          .head_dim = head_dim,
          .mask = MaskKind::causal_bottom_right,
          .heads_q = 4,
          .heads_kv = 2,
          .seqlen_q = 77,
          .seqlen_k = 129};
}

constexpr Gradients kBitwise{.determinism = Determinism::bitwise};

BackwardPlan plan_of(Context& context, const AttentionProblem& problem, const Gradients& gradients = {}) {
  return context.backward_plan(problem, device_under_test(), gradients, {});
}

/// Returns each kernel's pass, in launch order.
std::vector<KernelPass> passes_of(const BackwardPlan& plan) {
  std::vector<KernelPass> passes;
  for (const KernelReport& kernel : plan.explain().kernels) passes.push_back(pass_of(kernel.config));
  return passes;
}

bool is_hopper() {
  return device(device_under_test()).arch.compute_capability == 90;
}

}  // namespace

TEST_CASE("backward plan: explains each of its kernels, in launch order") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  const AttentionProblem problem = problem_of(64);
  using Passes = std::vector<KernelPass>;
  CHECK(passes_of(plan_of(context, problem)) ==
        Passes{KernelPass::delta, KernelPass::dq_dk_dv, KernelPass::dq_convert});
  CHECK(passes_of(plan_of(context, problem, kBitwise)) ==
        (is_hopper() ? Passes{KernelPass::delta, KernelPass::ordered_dq_dk_dv, KernelPass::dq_convert}
                     : Passes{KernelPass::delta, KernelPass::dq, KernelPass::dk_dv}));
  CHECK(passes_of(plan_of(context, problem, {.dk = false, .dv = false})) ==
        Passes{KernelPass::delta, KernelPass::dq});
  CHECK(passes_of(plan_of(context, problem, {.dq = false, .dv = false})) ==
        Passes{KernelPass::delta, KernelPass::dk});
  CHECK(passes_of(plan_of(context, problem, {.dq = false, .dk = false})) == Passes{KernelPass::dv});
  CHECK(passes_of(plan_of(context, problem, {.dk = false})) ==
        Passes{KernelPass::delta, KernelPass::dq, KernelPass::dv});
  AttentionProblem invariant = problem;
  invariant.batch_invariant = true;
  CHECK(passes_of(plan_of(context, invariant)) == passes_of(plan_of(context, problem, kBitwise)));
  CHECK_THROWS_WITH_AS(
      plan_of(context, problem, {.dq = false, .dk = false, .dv = false}),
      doctest::Contains("gradients = none, must be at least one of dq, dk, dv, d_sinks and d_captures"),
      InvalidRequest);
  CHECK(passes_of(plan_of(context, problem_of(256), kBitwise)) ==
        (is_hopper() ? Passes{KernelPass::delta, KernelPass::ordered_dq_dk_dv, KernelPass::dq_convert}
                     : Passes{KernelPass::delta, KernelPass::dq, KernelPass::dk,
                              KernelPass::dv}));  // too wide for dK and dV in one kernel
  AttentionProblem with_sinks = problem;
  with_sinks.sinks = true;
  CHECK(passes_of(plan_of(context, with_sinks, kBitwise)) ==
        (is_hopper() ? Passes{KernelPass::delta, KernelPass::ordered_dq_dk_dv, KernelPass::dq_convert}
                     : Passes{KernelPass::delta, KernelPass::dq, KernelPass::dk_dv}));
  CHECK(passes_of(plan_of(context, with_sinks, {.d_sinks = true})) ==
        Passes{KernelPass::delta, KernelPass::dq_dk_dv, KernelPass::dq_convert, KernelPass::d_sinks});
  const Gradients sinks_alone{.dq = false, .dk = false, .dv = false, .d_sinks = true};
  CHECK(passes_of(plan_of(context, with_sinks, sinks_alone)) ==
        Passes{KernelPass::delta, KernelPass::d_sinks});
  CHECK_THROWS_WITH_AS(plan_of(context, problem, sinks_alone),
                       doctest::Contains("d_sinks = true, must be false, or the problem's sinks true"),
                       InvalidRequest);

  for (const Gradients& gradients : {Gradients{}, kBitwise}) {
    const BackwardPlan plan = plan_of(context, problem, gradients);
    CHECK(plan.explain().problem == problem.normalized());
    for (const KernelReport& kernel : plan.explain().kernels) {
      CHECK(kernel.config_origin == ConfigOrigin::heuristic);
      CHECK_FALSE(kernel.config_reason.empty());
      CHECK_FALSE(kernel.key.empty());
      CHECK(kernel.resources.threads == kind_of(kernel.config).threads(kernel.config));
    }
  }
}

TEST_CASE(
    "backward plan: one kernel accumulates dQ unless the order must be fixed, on wgmma if TMA can load") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  const auto kernel_of = [&](const AttentionProblem& problem, RowAlignment alignment) {
    const BackwardPlan plan = context.backward_plan(problem, device_under_test(), {}, {alignment});
    CHECK(passes_of(plan) == std::vector{KernelPass::delta, KernelPass::dq_dk_dv, KernelPass::dq_convert});
    const KernelConfig config = plan.explain().kernels.at(1).config;
    CHECK(plan.explain().kernels.at(2).config == kind_of(config).conversion(config));
    return config.kernel;
  };
  const KernelId best = is_hopper() ? KernelId::backward_sm90 : KernelId::backward_sm80;
  AttentionProblem problem = problem_of(72);
  problem.head_dim_v = 40;
  CHECK(kernel_of(problem, RowAlignment::bytes16) == best);
  CHECK(kernel_of(problem_of(128), RowAlignment::bytes16) == best);
  CHECK(kernel_of(problem_of(256), RowAlignment::bytes16) == best);
  CHECK(kernel_of(problem_of(128), RowAlignment::element) == KernelId::backward_sm80);
  CHECK(kernel_of(problem_of(128), RowAlignment::bytes16_any_order) == KernelId::backward_sm80);
  problem = problem_of(64);
  problem.softcap = true;
  CHECK(kernel_of(problem, RowAlignment::bytes16) == best);
}

TEST_CASE("backward plan: a side without rows has no kernel") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  AttentionProblem problem = problem_of(64);
  problem.seqlen_k = 0;
  CHECK(passes_of(plan_of(context, problem)) == std::vector{KernelPass::delta, KernelPass::dq});
  problem.seqlen_k = 129, problem.seqlen_q = 0;
  CHECK(passes_of(plan_of(context, problem)) == std::vector{KernelPass::dq_dk_dv});
  CHECK(passes_of(plan_of(context, problem, kBitwise)) ==
        std::vector{is_hopper() ? KernelPass::ordered_dq_dk_dv : KernelPass::dk_dv});
  CHECK(plan_of(context, problem).workspace_bytes() == 0);
  problem.sinks = true;
  CHECK(passes_of(plan_of(context, problem, {.d_sinks = true})) ==
        std::vector{KernelPass::dq_dk_dv, KernelPass::d_sinks});
}

TEST_CASE("backward plan: works in the workspace that it is given, whatever its contents") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  GuardedBackward call(problem_of(64));
  const std::size_t delta = 1280;  // 4 * 4 * 77 = 1232
  CHECK(plan_of(context, call.forward.problem, {.dk = false}).workspace_bytes() == delta);
  CHECK(plan_of(context, call.forward.problem, {.dq = false, .dk = false}).workspace_bytes() == 0);
  AttentionProblem with_sinks = call.forward.problem;
  with_sinks.sinks = true;
  const Gradients sinks_alone{.dq = false, .dk = false, .dv = false, .d_sinks = true};
  CHECK(plan_of(context, with_sinks, sinks_alone).workspace_bytes() == delta);
  for (const Gradients& gradients : {Gradients{}, kBitwise}) {
    const BackwardPlan plan = plan_of(context, call.forward.problem, gradients);
    if (gradients == Gradients{} || is_hopper()) CHECK(plan.workspace_bytes() > 3 * delta + 4 * 4 * 77 * 64);
    DeviceBuffer workspace(plan.workspace_bytes());
    for (const std::uint8_t garbage : {std::uint8_t{0xff}, std::uint8_t{0x3c}}) {  // NaN, and numbers
      call.upload();
      workspace.fill(garbage);
      BackwardArgs args = call.args();
      args.workspace = workspace.data();
      plan.run(args);
      expect_gradients(call);
    }
  }
}

TEST_CASE("backward plan: a pack has every kernel that it may need") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const TemporaryDirectory pack;
  const AttentionProblem problem = problem_of(64);
  PrecompileOptions options;
  options.out = pack.path();
  options.backward = true;
  for (const PrecompiledKernel& kernel : Context(untuned()).precompile(
           {problem}, {std::string(device(device_under_test()).arch.name)}, options))
    CHECK_MESSAGE(kernel.error.empty(), kernel.error);

  Context context(serving(pack.path()));
  for (const Wanted wanted : {Wanted{}, Wanted{.dk = false}, Wanted{.dv = false}}) {
    for (const Determinism determinism : {Determinism::fastest, Determinism::bitwise}) {
      GuardedBackward call(problem);
      call.wanted = wanted;
      call.determinism = determinism;
      call.upload();
      run_and_expect_gradients(context, call);
    }
  }
}

TEST_CASE("backward plan: pinned tiles with one slot, two and three") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const GuardedBackward call(problem_of(72));
  for (const char* config :
       {"kernel=backward_dq_sm80,stages=1,tile_n=32", "kernel=backward_dq_sm80,stages=3",
        "kernel=backward_dq_sm80,tile_m=128,warps=4,stages=2",
        "kernel=backward_dk_dv_sm80,stages=1,tile_n=32", "kernel=backward_dk_dv_sm80,stages=3",
        "kernel=backward_dk_dv_sm80,tile_m=16,warps=1,tile_n=64"}) {
    INFO(config);
    Context context(pinning(parse_config(config)));
    run_and_expect_gradients(context, call);
    const BackwardPlan plan = plan_of(context, call.forward.problem);
    const bool is_dq = parse_config(config).kernel == KernelId::backward_dq_sm80;
    const KernelReport kernel = plan.explain().kernels.at(is_dq ? 1 : 2);  // delta, dQ, dK and dV
    CHECK(kernel.config == parse_config(config));
    CHECK(kernel.config_origin == ConfigOrigin::pinned);
  }
}

TEST_CASE("backward plan: a pinned kernel that does not fit is an error of the plans that need it") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(pinning(parse_config("kernel=backward_dk_dv_sm80")));
  const AttentionProblem wide = problem_of(256);
  CHECK(passes_of(plan_of(context, wide, {.dk = false, .dv = false})) ==
        std::vector{KernelPass::delta, KernelPass::dq});
  CHECK(passes_of(plan_of(context, wide, {.dq = false, .dk = false})) == std::vector{KernelPass::dv});
  CHECK_THROWS_WITH_AS(plan_of(context, wide), doctest::Contains("needs about"), InvalidRequest);
}
