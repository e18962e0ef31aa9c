// dK and dV in float32: kernels round sums last, so once rounded they have the bits of 16-bit ones.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <generator/config_space.h>
#include <generator/kernel_kind.h>
#include <planning/backward.h>
#include <runtime/device.h>

#include <functional>
#include <string>
#include <vector>

#include "../support/backward_cases.h"
#include "../support/float_tensor.h"
#include "../support/gpu_backward.h"
#include "../support/mma_configs.h"
#include "../support/varlen.h"

using namespace fa2;
using namespace fa2::test;

namespace {

/// Returns where the sequences' keys are.
SequenceRowsList keys_of(const GuardedBackward& call) {
  SequenceRowsList keys;
  for (const reference::Sequence& sequence : call.forward.sequences()) keys.push_back(sequence.k);
  return keys;
}

using Run = std::function<void(const AttentionProblem& problem, const BackwardArgs& args)>;

/// Runs an uploaded call with dK and dV in either type, and CHECKs both. `make`: layout of those in float32.
void expect_same_bits(const GuardedBackward& call, const Run& run, MakeLayout make = guarded_bshd) {
  AttentionProblem problem = call.forward.problem;
  INFO(to_string(problem));
  BackwardArgs args = call.args();
  run(problem, args);
  expect_gradients(call);
  problem.float32_dk_dv = true;
  const BackwardLayouts layouts = backward_layouts_of(problem, make);
  const FloatTensor dk(layouts.dk), dv(layouts.dv);
  if (args.dk != nullptr) args.dk = dk.data(), args.dk_strides = dk.strides();
  if (args.dv != nullptr) args.dv = dv.data(), args.dv_strides = dv.strides();
  run(problem, args);
  expect_gradients(call);  // dQ is new
  if (args.dk != nullptr) expect_unrounded(dk, call.dk(), problem.dtype, keys_of(call));
  if (args.dv != nullptr) expect_unrounded(dv, call.dv(), problem.dtype, keys_of(call));
}

/// Returns a run with a pinned kernel, and CHECKs that it has run.
Run pinned(Context& context, const KernelConfig& config) {
  return [&context, config](const AttentionProblem& problem, const BackwardArgs& args) {
    context.attention_backward(problem, args);
    const Gradients wanted{.dq = args.dq != nullptr,
                           .dk = args.dk != nullptr,
                           .dv = args.dv != nullptr,
                           .determinism = args.determinism};
    bool ran = false;
    for (const KernelReport& kernel :
         context.backward_plan(problem, device_under_test(), wanted, {}).explain().kernels)
      ran |= kernel.config.kernel == config.kernel;
    CHECK(ran);
  };
}

/// CHECKs a problem with each of these pinned kernels.
void expect_same_bits_with(const AttentionProblem& problem, const std::vector<std::string>& configs) {
  const GuardedBackward call(problem);
  for (const std::string& text : configs) {
    INFO(text);
    const KernelConfig config = parse_config(text);
    Context context(pinning(config));
    expect_same_bits(call, pinned(context, config), guarded_bhsd);
  }
}

/// CHECKs packed and batched sequences of unequal length, of which some have no queries or keys.
void expect_same_bits_of_sequences(const AttentionProblem& problem, const std::string& text) {
  INFO(text);
  const KernelConfig config = parse_config(text);
  Context context(pinning(config));
  for (const Packing packing : kPackings)
    expect_same_bits(backward_of(problem, {{65, 7, 0, 80}, {97, 5, 9, 0}}, packing), pinned(context, config));
}

const std::vector<std::string> kFusedMma = {
    "kernel=backward_sm80,tile_m=64,tile_n=32,warps=4,stages=2,split_gradients=0",
    "kernel=backward_sm80,tile_m=64,tile_n=16,warps=8,stages=1,split_gradients=1"};

}  // namespace

TEST_CASE("float32 dK and dV: the fused kernel on mma.sync") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  expect_same_bits_with(grouped_problem(DType::f16, MaskKind::causal_bottom_right, 64, 131, 150), kFusedMma);
  AttentionProblem problem = grouped_problem(DType::bf16, MaskKind::none, 72, 70, 77);
  problem.head_dim_v = 24;
  expect_same_bits_with(problem, kFusedMma);
}

TEST_CASE("float32 dK and dV: separate kernels, also for one gradient alone") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const std::string both = "kernel=backward_dk_dv_sm80,tile_m=64,tile_n=32,warps=4,stages=2";
  AttentionProblem problem = grouped_problem(DType::bf16, MaskKind::causal_top_left, 40, 70, 77);
  problem.sinks = true;
  expect_same_bits_with(problem, {both});
  problem.dropout = problem.softcap = true;
  expect_same_bits_of_sequences(problem, both);
  Context context(untuned());
  for (const bool wants_dk : {true, false}) {
    GuardedBackward call(grouped_problem(DType::f16, MaskKind::none, wants_dk ? 200 : 24, 40, 50));
    call.wanted = {.dq = false, .dk = wants_dk, .dv = !wants_dk};
    expect_same_bits(call, pinned(context, default_config(wants_dk ? KernelId::backward_dk_sm80
                                                                   : KernelId::backward_dv_sm80)));
  }
}

TEST_CASE("float32 dK and dV: rows aligned only to one float") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const AttentionProblem problem = grouped_problem(DType::f16, MaskKind::none, 40, 70, 77);
  for (const std::string& text : {kFusedMma[0], kFusedMma[1], std::string("kernel=backward_dk_dv_sm80")}) {
    const KernelConfig config = parse_config(text);
    Context context(pinning(config));
    expect_same_bits(GuardedBackward(problem), pinned(context, config), misaligned);
  }
}

TEST_CASE("float32 dK and dV: the fused kernel on wgmma, whichever warpgroup owns them") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem = grouped_problem(DType::bf16, MaskKind::causal_bottom_right, 64, 131, 150);
  expect_same_bits_with(problem, {"kernel=backward_sm90,tile_m=128,tile_n=128,warps=8,stages=2,pingpong=1",
                                  "kernel=backward_sm90,tile_m=128,tile_n=64,warps=8,stages=3,pingpong=2,"
                                  "bulk_sums=1"});
  problem.head_dim = 72, problem.head_dim_v = 128;
  expect_same_bits_with(problem, {"kernel=backward_sm90,tile_m=128,tile_n=64,warps=8,stages=2",
                                  "kernel=backward_sm90,tile_m=64,tile_n=64,warps=8,stages=2"});
}

TEST_CASE("float32 dK and dV: two blocks of a cluster share a key tile") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  const std::string shared = "kernel=backward_sm90,tile_m=128,tile_n=64,warps=8,stages=2";
  expect_same_bits_with(grouped_problem(DType::f16, MaskKind::causal_top_left, 200, 70, 150), {shared});
}

TEST_CASE("float32 dK and dV: sequences of unequal length on wgmma") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem{
      .head_dim = 128, .mask = MaskKind::causal_bottom_right, .heads_q = 2, .heads_kv = 1};
  problem.varlen = true;
  expect_same_bits_of_sequences(problem, "kernel=backward_sm90,tile_m=128,tile_n=64,warps=8,stages=2");
  problem.dropout = true;
  expect_same_bits_of_sequences(problem, "kernel=backward_sm90,tile_m=64,tile_n=64,warps=8,stages=2");
  problem.head_dim = 256, problem.dropout = false;
  expect_same_bits_of_sequences(problem, "kernel=backward_sm90,tile_m=128,tile_n=64,warps=8,stages=2");
}

TEST_CASE("float32 dK and dV: bitwise gradients") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  const KernelConfig config = default_config(KernelId::backward_ordered_sm90);
  Context context(pinning(config));
  GuardedBackward call(grouped_problem(DType::bf16, MaskKind::none, 128, 131, 150));
  call.determinism = Determinism::bitwise;
  expect_same_bits(call, pinned(context, config));
}

TEST_CASE("float32 dK and dV: parts of key tiles are added up without rounding") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  for (const std::string& text :
       {kFusedMma[0], std::string("kernel=backward_sm90,tile_m=64,tile_n=64,warps=8,stages=2")}) {
    const KernelConfig fused = parse_config(text);
    AttentionProblem problem = grouped_problem(DType::f16, MaskKind::causal_bottom_right, 72, 131, 150);
    problem.head_dim_v = 64;
    std::vector<BackwardPlan> plans;  // kept until their work has ended
    expect_same_bits(GuardedBackward(problem), [&](const AttentionProblem& of_run, const BackwardArgs& args) {
      BackwardScratch scratch = scratch_for(of_run, fused, 0);
      scratch.parts = {.count = 3, .steps = 1, .section_tiles = 4};
      plans.push_back(plan_of_kernels(
          of_run, {config_on_every_gpu(KernelPass::delta), fused, conversion_of(fused).config}, scratch,
          device(device_under_test()).arch));
      plans.back().run(args);
    });
  }
}

TEST_CASE("float32 dK and dV: 0 without a query") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem = grouped_problem(DType::f16, MaskKind::none, 64, 0, 20);
  const GuardedBackward call(problem);
  problem.float32_dk_dv = true;
  const BackwardLayouts layouts = backward_layouts_of(problem, guarded_bshd);
  const FloatTensor dk(layouts.dk), dv(layouts.dv);
  BackwardArgs args = call.args();
  args.dk = dk.data(), args.dv = dv.data();
  Context context(untuned());
  context.attention_backward(problem, args);
  for (const FloatTensor* const gradient : {&dk, &dv}) {
    const std::vector<float> rows = gradient->rows(keys_of(call));
    CHECK(rows == std::vector<float>(rows.size(), 0.0f));
  }
}
