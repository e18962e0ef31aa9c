// Calls at the limits of float32.
#include "backward_cases.h"

#include <api/plan.h>
#include <doctest/doctest.h>
#include <generator/kernel_source.h>
#include <interpreter/host_compiler.h>
#include <interpreter/interpreted_kernel.h>
#include <interpreter/options.h>
#include <planning/backward.h>
#include <runtime/compiler.h>
#include <runtime/kernel.h>

#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>

#include "device_under_test.h"

namespace fa2::test {

void expect_no_part_of_missing_keys(const Expectation& expect, int head_dim, int seqlen_k) {
  for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right}) {
    GuardedBackward call(grouped_problem(DType::f16, mask, head_dim, 66, seqlen_k));
    for (float& x : call.forward.q.values) x = round_to(5 + x / 16, DType::f16);
    for (float& x : call.forward.k.values) x = round_to(-5 + x / 16, DType::f16);
    call.upload();
    expect(call);
    CHECK(are_finite(call.dq()));
  }
}

void expect_no_part_of_missing_queries(const Expectation& expect) {
  AttentionProblem problem = grouped_problem(DType::f16, MaskKind::none, 64, 129, 130);
  problem.alibi = true;
  GuardedBackward call(problem);
  for (float& slope : call.forward.numbers["alibi_slopes"]) slope = -4;
  call.upload();
  expect(call);
  CHECK(are_finite(call.dk()));
  CHECK(are_finite(call.dv()));
}

void expect_any_scale_and_size(const Expectation& expect, int head_dim) {
  GuardedBackward call(grouped_problem(DType::bf16, MaskKind::causal_bottom_right, head_dim, 100, 140));
  for (const float scale : {-0.5f, 2.0f}) {
    call.forward.args.softmax_scale = scale;
    for (const float size : {1.0f, 1e-3f, 1e3f}) {
      call.randomize(11);
      for (float& x : call.d_out.values) x = round_to(size * x, DType::bf16);
      call.upload();
      expect(call);
    }
  }
}

void expect_nan_of_one_query(Context& context, std::int64_t first_hidden) {
  GuardedBackward call(grouped_problem(DType::f16, MaskKind::causal_top_left, 64, 300, 300));
  call.d_out.at(1, 2, 150, 3) = std::nanf("");  // sees keys 0 to 150 of key/value head 1
  call.upload();
  context.attention_backward(call.forward.problem, call.args());
  const reference::Tensor dq = call.dq(), dk = call.dk(), dv = call.dv();
  CHECK(std::isnan(dq.at(1, 2, 150, 0)));
  for (const std::int64_t row : {149, 151}) CHECK(std::isfinite(dq.at(1, 2, row, 0)));
  CHECK(std::isnan(dk.at(1, 1, 100, 0)));
  CHECK(std::isnan(dv.at(1, 1, 100, 3)));
  CHECK(std::isfinite(dv.at(1, 1, 100, 4)));
  for (const reference::Tensor& gradient : {dk, dv}) CHECK(are_finite(gradient, first_hidden, 300));
}

void expect_nan_of_one_sequence(const Expectation& expect, int head_dim) {
  for (const std::size_t b : {0, 1, 2}) {
    GuardedBackward call = backward_of({.head_dim = head_dim, .heads_q = 2, .heads_kv = 1},
                                       Lengths({10, 20, 5}, {30, 41, 15}), Packing::packed);
    const reference::Sequence sequence = call.forward.sequences()[b];
    for (reference::Tensor* tensor : {&call.forward.q, &call.d_out}) poison(*tensor, sequence.q);
    for (reference::Tensor* tensor : {&call.forward.k, &call.forward.v}) poison(*tensor, sequence.k);
    call.upload();
    expect(call);
  }
}

BackwardPlan plan_of_kernels(const AttentionProblem& problem, const std::vector<KernelConfig>& configs,
                             const BackwardScratch& scratch, const Arch& arch) {
  const auto compiler = arch.interpreted ? interpreter::make_host_compiler() : make_nvrtc_compiler();
  auto plan = std::make_shared<Plan>();
  plan->problem = {problem.normalized(), {}};
  plan->device = device_under_test();
  plan->scratch = std::make_shared<const ScratchPool>();
  for (const KernelConfig& config : configs) {
    const KernelBinary binary = compiler->compile(render({traits_of(plan->problem), config, arch}));
    plan->add(backward_step(plan->problem, config,
                            arch.interpreted ? interpreter::load_interpreted_kernel(
                                                   binary, interpreter::options_from_environment())
                                             : load_cuda_kernel(binary, device_under_test()),
                            scratch));
  }
  return BackwardPlan(std::move(plan));
}

void run_after_nan(const BackwardPlan& plan, GuardedBackward& call) {
  DeviceBuffer workspace(plan.workspace_bytes());
  call.upload();
  workspace.fill(0xff);
  BackwardArgs args = call.args();
  args.workspace = workspace.data();
  plan.run(args);
  expect_gradients(call);
}

void expect_any_lengths(const BackwardPlan& plan, GuardedBackward& call, Packing packing) {
  for (const Lengths& lengths : {Lengths({50, 65, 1, 20}), Lengths({0, 0, 0, 0}), Lengths({3, 5, 64, 7}),
                                 Lengths({0, 65, 65, 0}, {66, 0, 50, 20})}) {
    call.randomize(11);
    set_lengths(call.forward, lengths, packing);
    poison_unseen(call);
    run_after_nan(plan, call);
  }
}

}  // namespace fa2::test
