// Head dims beyond 256, and values that are columns of keys, on the kernel whose warps share rows.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/errors.h>
#include <generator/config_space.h>
#include <generator/kernel_spec.h>
#include <operation/rules/validate.h>
#include <runtime/compiler.h>
#include <runtime/device.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "../support/append_call.h"
#include "../support/pages.h"
#include "../support/pairwise.h"
#include "../support/refusals.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left};

/// In the second one, half of the warps compute all scores. In the fifth one, a warp has two tiles of 16 rows.
const std::vector<std::string> kConfigs = {
    "kernel=forward_wide,tile_m=16,tile_n=64,warps=4,stages=2,schedule=3,column_warps=4",
    "kernel=forward_wide,tile_m=16,tile_n=32,warps=4,stages=1,column_warps=4",
    "kernel=forward_wide,tile_m=64,tile_n=32,warps=8,stages=2,schedule=3,column_warps=2",
    "kernel=forward_wide,tile_m=32,tile_n=64,warps=8,stages=2,column_warps=4",
    "kernel=forward_wide,tile_m=32,tile_n=32,warps=2,stages=3,column_warps=2",
    "kernel=forward_wide_sm90,tile_m=64,tile_n=64,warps=8,stages=2,schedule=2,column_warps=2",
    "kernel=forward_wide_sm90,tile_m=64,tile_n=32,warps=8,stages=3,schedule=3,column_warps=2"};

/// Head dims of Q and K, and of V. Of some, the last warp has fewer columns than the others, or none.
constexpr std::pair<std::int32_t, std::int32_t> kHeadDims[] = {{264, 264}, {320, 320}, {512, 512}, {576, 512},
                                                               {64, 512},  {304, 8},   {256, 272}};
/// Head dims of latents: V is the first columns of K.
constexpr std::pair<std::int32_t, std::int32_t> kLatentDims[] = {
    {576, 512}, {320, 256}, {288, 288}, {80, 40}};
/// Head dims for 8-bit keys and values.
constexpr std::pair<std::int32_t, std::int32_t> kByteDims[] = {{576, 512}, {272, 272}, {512, 512}, {320, 16}};

AttentionProblem wide_problem(DType dtype, MaskKind mask, std::pair<std::int32_t, std::int32_t> dims,
                              std::int64_t queries, std::int64_t keys) {
  return {.dtype = dtype,
          .head_dim = dims.first,
          .head_dim_v = dims.second,
          .mask = mask,
          .batch = 2,
          .heads_q = 2,
          .heads_kv = 1,
          .seqlen_q = queries,
          .seqlen_k = keys};
}

bool can_run(const GuardedCall& call, const std::string& config) {
  const PlanOptions kept = options_kept_by(call.problem, operands_of(call.problem, call.args));
  return !why_rejected(PlannedProblem(call.problem, kept), parse_config(config),
                       device(device_under_test()).arch);
}

/// Runs `call` with a config, and CHECKs the contract, unless ptxas lacks registers for this variant. The context's kernels are not
/// unloaded while they run.
void expect_contract_with(GuardedCall& call, const std::string& config) {
  INFO(config);
  Context context(pinning(parse_config(config)));
  try {
    run_and_expect_contract(context, call);
  } catch (const KernelRefused& refused) {
    CHECK_MESSAGE(lacks_registers(refused.reason()), refused.reason());
  }
}

}  // namespace

TEST_CASE("head dims beyond 256 keep the numerics contract, with every variant and config") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  constexpr MakeLayout kLayouts[] = {guarded_bshd, guarded_bhsd, misaligned};
  std::size_t ran = 0;
  for (const Combination& c :
       pairwise({kConfigs.size(), std::size(kHeadDims), std::size(kMasks), 4, 2, 2, 2, 2, 3, 2, 2})) {
    AttentionProblem problem = wide_problem(c[7] == 1 ? DType::bf16 : DType::f16, kMasks[c[2]],
                                            kHeadDims[c[1]], ran % 2 == 0 ? 3 : 41, 75);
    if (c[3] == 1 || c[3] == 2) problem.window_left = 20;
    if (c[3] == 2) problem.window_right = 7;
    if (c[3] == 3) problem.attention_chunk = 30;
    problem.max_logits = c[9] == 1;
    problem.lse_base = c[10] == 1 ? LseBase::two : LseBase::natural;
    problem.softcap = c[4] == 1;
    problem.alibi = c[5] == 1;
    problem.sinks = c[6] == 1;
    problem.dropout = ran % 4 == 3;
    GuardedCall call(problem, layouts_of(problem, kLayouts[c[8]]));
    if (!can_run(call, kConfigs[c[0]])) continue;
    expect_contract_with(call, kConfigs[c[0]]);
    ++ran;
  }
  CHECK(ran > 20);
}

TEST_CASE("values in keys: V is the first columns of K, whatever its head dim") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  std::size_t ran = 0;
  for (const Combination& c : pairwise({kConfigs.size(), std::size(kLatentDims), std::size(kMasks), 2, 2})) {
    AttentionProblem problem = wide_problem(c[3] == 1 ? DType::bf16 : DType::f16, kMasks[c[2]],
                                            kLatentDims[c[1]], ran % 2 == 0 ? 4 : 37, 140);
    problem.values_in_keys = true;
    problem.sinks = c[4] == 1;
    GuardedCall call(problem);
    if (!can_run(call, kConfigs[c[0]])) continue;
    expect_contract_with(call, kConfigs[c[0]]);
    ++ran;
  }
  CHECK(ran > 10);
}

TEST_CASE("8-bit keys and values of head dims beyond 256, and in keys") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  std::size_t ran = 0;
  for (const Combination& c : pairwise({kConfigs.size(), std::size(kByteDims), std::size(kMasks), 2, 2, 2})) {
    AttentionProblem problem = wide_problem(c[3] == 1 ? DType::bf16 : DType::f16, kMasks[c[2]],
                                            kByteDims[c[1]], ran % 2 == 0 ? 4 : 37, 75);
    problem.kv_type = KvType::e4m3;
    problem.values_in_keys = c[4] == 1;
    problem.softcap = c[5] == 1;
    GuardedCall call(problem);
    if (!can_run(call, kConfigs[c[0]])) continue;
    expect_contract_with(call, kConfigs[c[0]]);
    ++ran;
  }
  CHECK(ran > 10);
}

TEST_CASE("latents in pages of any size, of which some may be missing, of sequences of any length") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const Lengths lengths({1, 2, 0, 5}, {100, 7, 3, 64});
  std::size_t i = 0;
  for (const int page_size : {1, 16, 64, 7, 1, 7, 1}) {
    AttentionProblem problem =
        wide_problem(DType::bf16, kMasks[i % 2], i % 2 == 0 ? kLatentDims[0] : kHeadDims[0], 0, 0);
    problem.heads_q = i == 2 ? 128 : 16;  // 128 fill two tiles of 64 rows
    problem.values_in_keys = i % 2 == 0;
    problem.kv_type = i == 2 || i == 3 || i == 6 ? KvType::e4m3 : KvType::same;
    problem.missing_pages = i > 1;
    if (problem.kv_type == KvType::e4m3 && !problem.values_in_keys)
      problem.head_dim = problem.head_dim_v = 272;
    const Packing packing = i % 2 == 0 ? Packing::queries : Packing::batched;
    GuardedCall call = paged_call(problem, lengths, packing, page_size);
    for (const std::string& config : kConfigs) {
      if (!can_run(call, config)) continue;
      call.upload();
      expect_contract_with(call, config);
    }
    ++i;
  }
}

TEST_CASE("latents in rows of 656 bytes keep the numerics contract, in pages and lists of keys") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const Lengths lengths({1, 2, 0, 3}, {100, 7, 3, 64});
  std::size_t ran = 0;
  for (const Combination& c : pairwise({kConfigs.size(), 4, std::size(kMasks), 2, 2, 2})) {
    AttentionProblem problem = wide_problem(DType::bf16, kMasks[c[2]], {576, 512}, 3, 75);
    problem.kv_type = KvType::ds_mla;
    problem.values_in_keys = true;
    problem.heads_q = c[3] == 1 ? 20 : 4;
    problem.softcap = c[4] == 1;
    problem.sinks = c[5] == 1;
    problem.missing_pages = c[1] > 1;
    constexpr int kPageSizes[] = {0, 16, 1, 7};
    GuardedCall call = c[1] == 0 ? GuardedCall(problem, layouts_of(problem, guarded_bshd))
                                 : paged_call(problem, lengths, Packing::queries, kPageSizes[c[1]]);
    if (ran % 4 == 3) call.k_descale.clear(), call.v_descale.clear(), call.upload();
    if (!can_run(call, kConfigs[c[0]])) continue;
    expect_contract_with(call, kConfigs[c[0]]);
    ++ran;
  }
  CHECK(ran > 8);
}

TEST_CASE("8-bit keys and values of wide heads, with more tiles than blocks") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  const std::size_t sequences = device(device_under_test()).arch.interpreted ? 7 : 150;
  std::vector<std::int32_t> queries(sequences, 1), keys(sequences);
  for (std::size_t i = 0; i < sequences; ++i) keys[i] = static_cast<std::int32_t>(37 * i % 200);
  for (const KvType kv_type : {KvType::ds_mla, KvType::e4m3}) {
    AttentionProblem problem = wide_problem(DType::bf16, MaskKind::none, {576, 512}, 0, 0);
    problem.kv_type = kv_type;
    problem.values_in_keys = problem.missing_pages = kv_type == KvType::ds_mla;
    if (kv_type == KvType::e4m3) problem.head_dim = 512;
    GuardedCall call =
        paged_call(problem, Lengths(queries, keys), Packing::queries, kv_type == KvType::e4m3 ? 16 : 1);
    for (const char* schedule : {"2", "3"}) {
      call.upload();
      expect_contract_with(
          call, "kernel=forward_wide_sm90,tile_m=64,tile_n=64,warps=8,stages=2,column_warps=2,schedule=" +
                    std::string(schedule));
    }
  }
}

TEST_CASE("append: the parts of latents, of which one is rotated, to rows that hold both") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (const KvType kv_type : {KvType::same, KvType::e4m3}) {
    AppendProblem p{.dtype = DType::bf16,
                    .head_dim = 64,
                    .head_dim_v = 512,
                    .rotary_dim = 64,
                    .rotary_style = RotaryStyle::interleaved,
                    .table_rows = 40,
                    .kv_type = kv_type,
                    .batch = 2,
                    .heads_q = 4,
                    .seqlen_q = 3,
                    .seqlen_new = 3};
    p.page_size = 4, p.max_pages = 3, p.cache_entries = 6;
    const AppendTables tables{.seqlens = {0, 7}, .page_table = {{4, 1, 0}, {2, 5, 3}}};
    const AppendCall call(
        p, tables, {.shared_rows = true, .factors = kv_type == KvType::same ? Factors::none : Factors::each});
    context.append(call.problem, call.args);
    const std::string wrong = call.wrong();
    CHECK_MESSAGE(wrong.empty(), wrong);
  }
}
