// O in float32: kernels round it last, so once rounded it has the bits of a 16-bit one.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <generator/config_space.h>
#include <operation/rules/validate.h>
#include <runtime/device.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "../support/float_tensor.h"
#include "../support/mma_configs.h"
#include "../support/pages.h"

using namespace fa2;
using namespace fa2::test;

namespace {

/// Returns where the sequences' queries are.
SequenceRowsList queries_of(const GuardedCall& call) {
  SequenceRowsList queries;
  for (const reference::Sequence& sequence : call.sequences()) queries.push_back(sequence.q);
  return queries;
}

/// Returns the rows of O in float32, which the call writes to `out`. CHECKs that LSE stays as it is.
std::vector<float> float_output(Context& context, const GuardedCall& call, const FloatTensor& out) {
  AttentionProblem problem = call.problem;
  problem.float32_out = true;
  AttentionArgs args = call.args;
  args.out = out.data(), args.out_strides = out.strides();
  const std::vector<float> lse = call.lse();
  context.attention(problem, args);
  std::vector<float> rows = out.rows(queries_of(call));
  CHECK(call.lse() == lse);
  return rows;
}

/// CHECKs an uploaded call, with O in either type. `make`: the layout of O in float32.
void expect_unrounded_output(Context& context, const GuardedCall& call, MakeLayout make = guarded_bshd) {
  run_and_expect_contract(context, call);
  const FloatTensor out(layouts_of(call.problem, make).out);
  (void)float_output(context, call, out);
  expect_unrounded(out, call.out(), call.problem.dtype, queries_of(call));
}

/// Returns how many of these configs compute the call, and CHECKs each.
std::size_t expect_unrounded_with(GuardedCall& call, const std::vector<std::string>& configs,
                                  MakeLayout make = guarded_bshd) {
  const PlanOptions kept = options_kept_by(call.problem, operands_of(call.problem, call.args));
  std::size_t ran = 0;
  for (const std::string& text : configs) {
    INFO(text);
    KernelConfig config = parse_config(text);
    config.skip_masked = config.kernel == KernelId::forward_sm90 && has_edges(call.problem);
    AttentionProblem problem = call.problem;
    problem.float32_out = true;
    if (why_rejected(PlannedProblem(problem, kept), config, device(device_under_test()).arch)) continue;
    call.upload();
    Context context(pinning(config));
    expect_unrounded_output(context, call, make);
    CHECK(context.plan(problem, device_under_test(), kept).explain().kernels.at(0).config == config);
    ++ran;
  }
  return ran;
}

const std::vector<std::string> kConfigs90 = {
    "kernel=forward_sm90,tile_m=128,tile_n=64,warps=8,stages=3,q_buffers=1,schedule=2,overlap=1",
    "kernel=forward_sm90,tile_m=128,tile_n=48,warps=8,stages=2,q_buffers=2,schedule=1,speculative_max=1",
    "kernel=forward_sm90,tile_m=64,tile_n=32,warps=4,stages=4,ctas_per_sm=2,q_buffers=1,schedule=3,overlap="
    "1"};
/// On mma.sync, then on wgmma.
const std::vector<std::string> kWide = {
    "kernel=forward_wide,tile_m=16,tile_n=64,warps=4,stages=2,schedule=3,column_warps=4",
    "kernel=forward_wide,tile_m=32,tile_n=32,warps=2,stages=3,column_warps=2"};
const std::vector<std::string> kWide90 = {
    "kernel=forward_wide_sm90,tile_m=64,tile_n=64,warps=8,stages=2,schedule=2,column_warps=2",
    "kernel=forward_wide_sm90,tile_m=64,tile_n=32,warps=8,stages=3,schedule=3,column_warps=2"};

/// Returns a problem of few queries over many keys.
AttentionProblem decode_problem(DType dtype, int dim) {
  AttentionProblem problem = grouped_problem(dtype, MaskKind::none, dim, 3, 900);
  problem.heads_q = 8;
  return problem;
}

/// Sets Q to 0, so that all keys weigh the same and every probability is exact.
void weigh_equally(GuardedCall& call) {
  call.q = constant_tensor({call.q.batch, call.q.heads, call.q.rows, call.q.dim}, 0);
  call.upload();
}

/// CHECKs that O of a call whose probabilities are exact has errors of float32 alone.
void expect_exact_means(GuardedCall& call, const std::string& text) {
  INFO(text);
  weigh_equally(call);
  Context context(pinning(parse_config(text)));
  run_and_expect_contract(context, call);
  const FloatTensor out(layouts_of(call.problem, guarded_bhsd).out);
  const std::vector<float> rows = float_output(context, call, out);
  const reference::Tensor exact =
      reference::attention_f64(call.problem, call.q, call.k, call.v, call.rule()).out;
  REQUIRE(rows.size() == exact.values.size());
  double largest = 0, of_halves = 0;
  const std::vector<float> halves = call.out().values;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    largest = std::max(largest, std::abs(double{rows[i]} - exact.values[i]));
    of_halves = std::max(of_halves, std::abs(double{halves[i]} - exact.values[i]));
  }
  CHECK(largest <= 1e-6);
  CHECK(of_halves > 5e-6);
}

}  // namespace

TEST_CASE("float32 outputs: mma.sync, with any layout and alignment") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem = grouped_problem(DType::f16, MaskKind::causal_bottom_right, 64, 70, 150);
  GuardedCall causal(problem);
  CHECK(expect_unrounded_with(causal, kMmaConfigs) == kMmaConfigs.size());
  problem = grouped_problem(DType::bf16, MaskKind::none, 72, 40, 77);
  problem.head_dim_v = 24;
  for (const MakeLayout make : {guarded_bhsd, misaligned}) {
    GuardedCall call(problem, layouts_of(problem, make));
    CHECK(expect_unrounded_with(call, {kMmaConfigs[1], kMmaConfigs[4]}, make) == 2);
  }
}

TEST_CASE("float32 outputs: wgmma, with packed heads and tiles that end early") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem = grouped_problem(DType::bf16, MaskKind::causal_bottom_right, 128, 131, 200);
  problem.heads_q = 6;
  GuardedCall causal(problem);
  CHECK(expect_unrounded_with(causal, kConfigs90) == kConfigs90.size());
  problem = grouped_problem(DType::f16, MaskKind::none, 64, 70, 90);
  problem.head_dim_v = 40, problem.sinks = problem.softcap = true;
  GuardedCall other(problem);
  CHECK(expect_unrounded_with(other, kConfigs90) == kConfigs90.size());
}

TEST_CASE("float32 outputs: parts of split keys are merged without rounding") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  GuardedCall call(decode_problem(DType::bf16, 64));
  CHECK(expect_unrounded_with(call, {kMmaConfigs[3], kMmaConfigs[4]}) == 2);
  AttentionProblem problem = decode_problem(DType::f16, 80);
  problem.batch_invariant = true;
  GuardedCall fixed(problem, layouts_of(problem, misaligned));
  CHECK(expect_unrounded_with(fixed, {kMmaConfigs[5]}, misaligned) == 1);
}

TEST_CASE("float32 outputs: parts of split keys on wgmma") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  GuardedCall call(decode_problem(DType::f16, 128));
  CHECK(expect_unrounded_with(call, {kConfigs90[2]}) == 1);
}

TEST_CASE("float32 outputs: head dims beyond 256, and values in keys") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem = grouped_problem(DType::f16, MaskKind::causal_bottom_right, 320, 20, 70);
  problem.head_dim_v = 264;
  GuardedCall call(problem);
  CHECK(expect_unrounded_with(call, kWide) == kWide.size());
  problem = grouped_problem(DType::bf16, MaskKind::none, 80, 5, 300);
  problem.head_dim_v = 40, problem.values_in_keys = true;
  GuardedCall latents(problem);
  CHECK(expect_unrounded_with(latents, kWide) == kWide.size());
}

TEST_CASE("float32 outputs: head dims beyond 256 on wgmma") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem = grouped_problem(DType::f16, MaskKind::causal_bottom_right, 320, 70, 90);
  problem.head_dim_v = 264;
  GuardedCall call(problem);
  CHECK(expect_unrounded_with(call, kWide90) == kWide90.size());
}

TEST_CASE("float32 outputs: keys of 8 bits") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem = grouped_problem(DType::bf16, MaskKind::none, 80, 20, 90);
  problem.head_dim_v = 48, problem.kv_type = KvType::e4m3;
  GuardedCall call(problem);
  CHECK(expect_unrounded_with(call, {kMmaConfigs[0], kMmaConfigs[3]}) == 2);
  GuardedCall misplaced(problem);
  CHECK(expect_unrounded_with(misplaced, {kMmaConfigs[0]}, guarded_bhsd) == 1);
  problem.head_dim = 272, problem.head_dim_v = 272;
  GuardedCall wide(problem);
  CHECK(expect_unrounded_with(wide, {kWide[0]}) == 1);
}

TEST_CASE("float32 outputs: dropout and slopes") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem = grouped_problem(DType::f16, MaskKind::none, 40, 33, 50);
  problem.dropout = problem.alibi = true;
  GuardedCall call(problem);
  CHECK(expect_unrounded_with(call, {kMmaConfigs[1], kMmaConfigs[6]}) == 2);
}

TEST_CASE("float32 outputs: sequences of unequal length, in pages too") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const Lengths lengths({65, 7, 0, 80}, {97, 5, 9, 0});
  const AttentionProblem problem{
      .head_dim = 64, .mask = MaskKind::causal_bottom_right, .heads_q = 2, .heads_kv = 1};
  std::vector<std::string> configs = {kMmaConfigs[1], kMmaConfigs[3]};
  if (device(device_under_test()).arch.name != std::string_view("sm_80"))
    configs.insert(configs.end(), kConfigs90.begin(), kConfigs90.end());
  for (const Packing packing : kPackings) {
    GuardedCall call(with_lengths(problem, lengths, packing));
    set_lengths(call, lengths, packing);
    poison_unseen(call);
    CHECK(expect_unrounded_with(call, configs) >= 2);
  }
  GuardedCall paged = paged_call(problem, lengths, Packing::queries, 16);
  CHECK(expect_unrounded_with(paged, configs) >= 2);
}

TEST_CASE("float32 outputs: equal weights give the mean of values to float32") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  GuardedCall call(decode_problem(DType::bf16, 64));
  for (const std::string& text : {kMmaConfigs[1], kMmaConfigs[3], kMmaConfigs[4]})
    expect_exact_means(call, text);
  AttentionProblem problem = decode_problem(DType::f16, 264);
  problem.seqlen_k = 150;
  GuardedCall wide(problem);
  expect_exact_means(wide, kWide[0]);
  if (cannot_run_sm_90a()) return;
  for (const std::string& text : kConfigs90) expect_exact_means(call, text);
  for (const std::string& text : kWide90) expect_exact_means(wide, text);
}

TEST_CASE("float32 outputs: 0 without a key") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (const int queries : {2, 70}) {
    GuardedCall call(grouped_problem(DType::f16, MaskKind::none, 64, queries, 0));
    call.upload();
    run_and_expect_contract(context, call);
    const FloatTensor out(layouts_of(call.problem, guarded_bshd).out);
    const std::vector<float> rows = float_output(context, call, out);
    CHECK(rows == std::vector<float>(rows.size(), 0.0f));
  }
}
