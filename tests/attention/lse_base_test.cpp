// LseBase::two: forward, merge and backward agree. The variants' tests run it with every forward kernel.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <fa2/merge.h>
#include <runtime/device.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "../support/gpu_backward.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

AttentionProblem base_two(MaskKind mask, int seqlen_q, int seqlen_k) {
  AttentionProblem problem = grouped_problem(DType::f16, mask, 64, seqlen_q, seqlen_k);
  problem.lse_base = LseBase::two;
  return problem;
}

/// Returns the LSE that a call in this base has.
std::vector<float> lse_in(LseBase base, GuardedCall& call, Context& context) {
  AttentionProblem problem = call.problem;
  problem.lse_base = base;
  call.upload();
  context.attention(problem, call.args);
  return call.lse();
}

void expect_gradients(Context& context, const AttentionProblem& problem, Determinism determinism) {
  GuardedBackward call(problem);
  call.determinism = determinism;
  call.wanted.d_sinks = problem.sinks;
  for (const bool has_d_lse : {false, true}) {
    if (has_d_lse) call.give_d_lse();
    call.upload();
    run_and_expect_gradients(context, call);
  }
}

}  // namespace

TEST_CASE("LSE to base 2 is the natural one times log2(e), with every way to split keys") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (const char* const config : {"kernel=forward_split,tile_m=16,tile_n=16,warps=4,stages=2",
                                   "kernel=forward_sm90,tile_m=64,tile_n=32,warps=4,stages=4,ctas_per_sm=2,q_"
                                   "buffers=1,schedule=3,overlap=1"}) {
    if (parse_config(config).kernel == KernelId::forward_sm90 && cannot_run_sm_90a()) continue;
    INFO(config);
    Context context(pinning(parse_config(config)));
    GuardedCall call(base_two(MaskKind::none, 3, 700));
    const std::vector<float> two = lse_in(LseBase::two, call, context);
    expect_contract(call);
    const std::vector<float> natural = lse_in(LseBase::natural, call, context);
    for (std::size_t i = 0; i < two.size(); ++i)
      CHECK(two[i] == doctest::Approx(double{natural[i]} * std::numbers::log2e).epsilon(1e-6));
  }
}

TEST_CASE("LSE to base 2: rows without a key keep their infinity, and have the sink in base 2") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  GuardedCall call(base_two(MaskKind::causal_bottom_right, 40, 20));
  CHECK(lse_in(LseBase::two, call, context)[0] == kInfinity);
  call.args.empty_row_lse = EmptyRowLse::negative_infinity;
  CHECK(lse_in(LseBase::two, call, context)[0] == -kInfinity);
  AttentionProblem problem = base_two(MaskKind::causal_bottom_right, 40, 20);
  problem.sinks = true;
  GuardedCall with_sinks(problem);
  with_sinks.numbers["sinks"][0] = 1.5f;
  CHECK(lse_in(LseBase::two, with_sinks, context)[0] == doctest::Approx(1.5 * std::numbers::log2e));
  expect_contract(with_sinks);
}

TEST_CASE("LSE to base 2: merge() joins what attention() wrote") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  GuardedCall call(base_two(MaskKind::none, 33, 150));
  const AttentionProblem& p = call.problem;
  call.upload();
  const std::int64_t rows = p.batch * p.heads_q * p.seqlen_q, elements = rows * 64, first = 70;
  DeviceBuffer o(static_cast<std::size_t>(2 * elements) * 2), lse(static_cast<std::size_t>(2 * rows) * 4);
  for (std::int64_t part = 0; part < 2; ++part) {
    AttentionProblem slice = p;
    slice.seqlen_k = part == 0 ? first : p.seqlen_k - first;
    AttentionArgs args = call.args;
    args.k = static_cast<const std::uint16_t*>(args.k) + part * first * args.k_strides.row;
    args.v = static_cast<const std::uint16_t*>(args.v) + part * first * args.v_strides.row;
    args.out = element(o, part * elements);
    args.out_strides = TensorStrides::bhsd(p.seqlen_q, p.heads_q, 64);
    args.lse = static_cast<float*>(lse.data()) + part * rows;
    context.attention(slice, args);
  }
  MergeArgs args;
  args.parts = o.data(), args.part_stride = elements;
  args.parts_strides = TensorStrides::bhsd(p.seqlen_q, p.heads_q, 64);
  args.lse_parts = static_cast<const float*>(lse.data()), args.lse_part_stride = rows;
  args.lse_parts_strides = TensorStrides::bhsd(p.seqlen_q, p.heads_q, 1);
  args.out = call.args.out, args.out_strides = call.args.out_strides, args.lse = call.args.lse;
  context.merge({.dtype = p.dtype,
                 .lse_base = LseBase::two,
                 .head_dim = 64,
                 .parts = 2,
                 .batch = p.batch,
                 .heads = p.heads_q,
                 .seqlen = p.seqlen_q},
                args);
  expect_contract(call);
}

TEST_CASE("LSE to base 2: gradients, of dLSE and sinks too, with every backward kernel that reads it") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  std::vector<ContextOptions> all(3, untuned());
  all[1].config = parse_config("kernel=backward_dq_sm80,tile_m=64,tile_n=32,warps=4,stages=1");
  all[2].config = default_config(KernelId::backward_sm80);
  for (const ContextOptions& options : all) {
    INFO((options.config ? to_string(*options.config) : "the heuristic's"));
    Context context(options);
    for (const bool sinks : {false, true}) {
      AttentionProblem problem = base_two(MaskKind::causal_bottom_right, 77, 129);
      problem.sinks = sinks;
      expect_gradients(context, problem, Determinism::fastest);
      if (!options.config) expect_gradients(context, problem, Determinism::bitwise);
    }
  }
}

TEST_CASE("LSE to base 2: rows without a key have gradient 0, for either infinity") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  GuardedBackward call(base_two(MaskKind::causal_bottom_right, 100, 40));
  for (const EmptyRowLse infinity : {EmptyRowLse::positive_infinity, EmptyRowLse::negative_infinity}) {
    call.forward.args.empty_row_lse = infinity;
    for (const Determinism determinism : {Determinism::fastest, Determinism::bitwise}) {
      call.determinism = determinism;
      call.upload();
      run_and_expect_gradients(context, call);
    }
  }
}
