// Forwards over 8-bit keys and values that are widened first, and kernels that read 16-bit ones with factors.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <generator/config_space.h>
#include <generator/kernel_spec.h>
#include <runtime/device.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../support/mma_configs.h"
#include "../support/pairwise.h"
#include "../support/varlen.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left};

/// Returns a problem with 8 query heads of one key/value head, so that few queries are many rows.
AttentionProblem grouped_keys(DType dtype, MaskKind mask, int dim, int dim_v) {
  return {.dtype = dtype,
          .head_dim = dim,
          .head_dim_v = dim_v,
          .mask = mask,
          .kv_type = KvType::e4m3,
          .heads_q = 8,
          .heads_kv = 1};
}

std::vector<KernelReport> kernels_of(Context& context, const AttentionProblem& problem) {
  return context.plan(problem, device_under_test()).explain().kernels;
}

/// Runs a call whose plan must widen keys and values, with a kernel that cannot read 8 bits, and CHECKs the contract.
void expect_widened(const GuardedCall& call) {
  KernelConfig config = parse_config(
      "kernel=forward_sm90,tile_m=128,tile_n=32,warps=8,stages=3,q_buffers=1,schedule=2,overlap=1,"
      "speculative_max=1");
  config.skip_masked = has_edges(call.problem);
  Context context(pinning(config));
  run_and_expect_contract(context, call);
  const std::vector<KernelReport> kernels = kernels_of(context, call.problem);
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].config.kernel == KernelId::widen);
  CHECK(kernels[1].config == config);
}

}  // namespace

TEST_CASE("8-bit keys are widened where many queries read each") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  std::size_t i = 0;
  for (const auto& [dim, dim_v] : {std::pair{64, 64}, {128, 128}, {80, 48}, {32, 256}}) {
    AttentionProblem problem = grouped_keys(i % 2 == 0 ? DType::bf16 : DType::f16, kMasks[i % 3], dim, dim_v);
    problem.batch = 2;
    problem.seqlen_q = 67;
    problem.seqlen_k = 133;
    problem.softcap = i % 2 == 1;
    problem.alibi = i == 2;
    if (i == 3) problem.window_left = 40;
    GuardedCall call(problem, layouts_of(problem, i % 2 == 0 ? guarded_bshd : guarded_bhsd));
    expect_widened(call);
    ++i;
  }
}

TEST_CASE("8-bit keys are widened in packed sequences and in pages") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  const Lengths lengths({70, 64, 1, 130}, {70, 200, 33, 130});
  for (const Packing packing : {Packing::packed, Packing::queries, Packing::batched}) {
    const AttentionProblem problem =
        with_lengths(grouped_keys(DType::bf16, MaskKind::causal_bottom_right, 64, 64), lengths, packing);
    GuardedCall call(problem, layouts_of(problem, guarded_bshd));
    set_lengths(call, lengths, packing);
    poison_unseen(call);
    call.upload();
    expect_widened(call);
  }
}

TEST_CASE(
    "8-bit keys are not widened for few queries, by a pinned kernel that reads them, or if batch-invariant") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem = grouped_keys(DType::bf16, MaskKind::none, 64, 64);
  problem.seqlen_k = 256;
  problem.seqlen_q = 7;
  Context context(untuned());
  CHECK(kernels_of(context, problem).size() == 1);
  problem.seqlen_q = 8;
  CHECK(kernels_of(context, problem).size() == 2);
  Context pinned(pinning(parse_config("kernel=forward_sm80,tile_m=64,tile_n=32,warps=4,stages=1")));
  CHECK(kernels_of(pinned, problem).size() == 1);
  problem.batch_invariant = true;
  CHECK(kernels_of(context, problem).size() == 1);
}

TEST_CASE("16-bit keys and values with factors keep the numerics contract, with every forward kernel") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  std::vector<std::string> configs = kMmaConfigs;
  for (const char* config :
       {"kernel=forward_sm90,tile_m=128,tile_n=64,warps=8,stages=3,q_buffers=1,schedule=2,overlap=1,"
        "speculative_max=1",
        "kernel=forward_sm90,tile_m=128,tile_n=32,warps=8,stages=2,q_buffers=1,schedule=1",
        "kernel=forward_sm90,tile_m=64,tile_n=32,warps=4,stages=4,ctas_per_sm=2,q_buffers=1,schedule=3,"
        "overlap=1"})
    configs.emplace_back(config);
  std::size_t ran = 0;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    AttentionProblem problem =
        grouped_problem(i % 2 == 0 ? DType::bf16 : DType::f16, MaskKind::none, 64, 70, 133);
    problem.kv_type = KvType::scaled;
    problem.softcap = i % 3 == 1;
    GuardedCall call(problem);
    if (why_rejected({call.problem, {}}, parse_config(configs[i]), device(device_under_test()).arch))
      continue;
    INFO(configs[i]);
    ContextOptions options = untuned();
    options.config = parse_config(configs[i]);
    Context context(options);
    run_and_expect_contract(context, call);
    ++ran;
  }
  CHECK(ran >= kMmaConfigs.size());
}
