// dQ in float32: once rounded it has the bits of a 16-bit one, where no order of sums can change these.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <generator/kernel_kind.h>
#include <runtime/device.h>

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

SequenceRowsList queries_of(const GuardedBackward& call) {
  SequenceRowsList queries;
  for (const reference::Sequence& sequence : call.forward.sequences()) queries.push_back(sequence.q);
  return queries;
}

/// Runs an uploaded call with dQ in either type, and CHECKs both. `make`: layout of that in float32.
void expect_same_bits(const GuardedBackward& call, const KernelConfig& config,
                      MakeLayout make = guarded_bhsd) {
  Context context(pinning(config));
  AttentionProblem problem = call.forward.problem;
  INFO(to_string(problem), ", ", to_string(config));
  BackwardArgs args = call.args();
  context.attention_backward(problem, args);
  expect_gradients(call);
  problem.float32_dq = true;
  const FloatTensor dq(backward_layouts_of(problem, make).dq);
  args.dq = dq.data(), args.dq_strides = dq.strides();
  context.attention_backward(problem, args);
  expect_unrounded(dq, call.dq(), problem.dtype, queries_of(call));
}

GuardedBackward of_dq_alone(const AttentionProblem& problem) {
  GuardedBackward call(problem);
  call.wanted = {.dq = true, .dk = false, .dv = false};
  return call;
}

}  // namespace

TEST_CASE("float32 dQ: kernels whose blocks own queries") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const KernelConfig config = parse_config("kernel=backward_dq_sm80,tile_m=64,tile_n=32,warps=4,stages=2");
  AttentionProblem problem = grouped_problem(DType::bf16, MaskKind::causal_top_left, 40, 131, 77);
  problem.softcap = true;
  expect_same_bits(of_dq_alone(problem), config);
  expect_same_bits(of_dq_alone(grouped_problem(DType::f16, MaskKind::none, 128, 70, 40)), config, misaligned);
  for (const Packing packing : kPackings) {
    GuardedBackward call = backward_of(problem, {{65, 7, 0, 80}, {97, 5, 9, 0}}, packing);
    call.wanted = {.dq = true, .dk = false, .dv = false};
    expect_same_bits(call, config);
  }
}

TEST_CASE("float32 dQ: sums of the fused kernel on mma.sync, with one key tile") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const KernelConfig config =
      parse_config("kernel=backward_sm80,tile_m=64,tile_n=32,warps=4,stages=2,split_gradients=0");
  for (const int head_dim : {40, 64, 128})
    expect_same_bits(GuardedBackward(grouped_problem(DType::bf16, MaskKind::none, head_dim, 131, 60)),
                     config);
  expect_same_bits(GuardedBackward(grouped_problem(DType::f16, MaskKind::none, 72, 70, 33)), config,
                   misaligned);
}

TEST_CASE("float32 dQ: sums of the fused kernel on wgmma, as they are and as their transpose") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  const KernelConfig config = parse_config("kernel=backward_sm90,tile_m=128,tile_n=64,warps=8,stages=2");
  expect_same_bits(GuardedBackward(grouped_problem(DType::bf16, MaskKind::none, 64, 131, 120)),
                   parse_config("kernel=backward_sm90,tile_m=128,tile_n=128,warps=8,stages=2,pingpong=1"));
  for (const int head_dim : {72, 128})
    expect_same_bits(GuardedBackward(grouped_problem(DType::bf16, MaskKind::none, head_dim, 131, 120)),
                     config);
  expect_same_bits(GuardedBackward(grouped_problem(DType::f16, MaskKind::none, 256, 70, 60)), config);
}

TEST_CASE("float32 dQ: bitwise gradients, and sequences of unequal length on wgmma") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  const KernelConfig config = default_config(KernelId::backward_ordered_sm90);
  AttentionProblem problem = grouped_problem(DType::bf16, MaskKind::causal_bottom_right, 128, 131, 290);
  GuardedBackward call(problem);
  call.determinism = Determinism::bitwise;
  expect_same_bits(call, config);
  problem.varlen = true;
  for (const Packing packing : kPackings) {
    GuardedBackward packed = backward_of(problem, {{65, 7, 0, 80}, {97, 5, 9, 0}}, packing);
    packed.determinism = Determinism::bitwise;
    expect_same_bits(packed, config);
  }
}
