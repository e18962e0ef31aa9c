// Paged KV: pages of any size, in any order, with every forward kernel.
#include "../support/pages.h"

#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/errors.h>
#include <generator/sequences.h>
#include <operation/rules/validate.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../support/cache_fixtures.h"
#include "../support/mma_configs.h"
#include "../support/pairwise.h"
#include "../support/varlen.h"

using namespace fa2;
using namespace fa2::test;

namespace {

const std::vector<std::string> kConfigs90 = {
    "kernel=forward_sm90,tile_m=128,tile_n=64,warps=8,stages=3,q_buffers=1,schedule=2,overlap=1,speculative_"
    "max=1",
    "kernel=forward_sm90,tile_m=64,tile_n=48,warps=4,stages=4,ctas_per_sm=2,q_buffers=1,schedule=3,overlap=1",
    "kernel=forward_sm90,tile_m=128,tile_n=32,warps=8,stages=3,q_buffers=2,schedule=3"};
// Warps of the first config gather more rows than they have lanes. With overlap as well, its consumers would leave the
// producer too few registers.
const std::vector<std::string> kGathering90 = {
    "kernel=forward_sm90,tile_m=64,tile_n=144,warps=4,stages=2,ctas_per_sm=2,q_buffers=1,schedule=3",
    "kernel=forward_sm90,tile_m=128,tile_n=48,warps=8,stages=6,q_buffers=1,schedule=2,overlap=1",
    "kernel=forward_sm90,tile_m=64,tile_n=32,warps=4,stages=4,ctas_per_sm=2,q_buffers=2,schedule=3,overlap="
    "1"};

constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left};
constexpr std::pair<std::int32_t, std::int32_t> kHeadDims[] = {{64, 64}, {72, 40}, {128, 128}, {64, 32}};
/// Head dims of 8-bit keys and values.
constexpr std::pair<std::int32_t, std::int32_t> kByteDims[] = {{64, 64}, {80, 48}, {128, 128}, {32, 64}};

ContextOptions pinned(const std::string& config, const AttentionProblem& problem) {
  ContextOptions options = untuned();
  options.config = parse_config(config);
  options.config->skip_masked = options.config->kernel == KernelId::forward_sm90 && has_edges(problem);
  return options;
}

/// CHECKs the contract for pairs of all traits, among them page sizes, on several mixes of lengths, with Q
/// packed and batched.
void expect_contracts(const std::vector<std::string>& configs, const std::vector<int>& page_sizes,
                      KvType kv_type = KvType::same, bool may_miss_pages = true) {
  constexpr std::pair<std::int64_t, std::int64_t> kHeads[] = {{1, 1}, {5, 1}, {6, 2}};
  std::size_t i = 0;
  for (const Combination& c : pairwise(
           {configs.size(), page_sizes.size(), std::size(kHeadDims), std::size(kMasks), 4, 2, 2, 2, 2})) {
    const auto [dim, dim_v] = (kv_type == KvType::same ? kHeadDims : kByteDims)[c[2]];
    AttentionProblem problem{.head_dim = dim, .head_dim_v = dim_v, .mask = kMasks[c[3]], .kv_type = kv_type};
    if (c[4] == 1 || c[4] == 2) problem.window_left = 20;
    if (c[4] == 2) problem.window_right = 7;
    if (c[4] == 3) problem.attention_chunk = 50;
    problem.softcap = c[5] == 1;
    problem.alibi = c[6] == 1;
    problem.max_logits = i % 4 == 3;
    problem.missing_pages = c[8] == 1 && may_miss_pages;
    problem.dtype = c[7] == 1 ? DType::bf16 : DType::f16;
    std::tie(problem.heads_q, problem.heads_kv) = kHeads[i % std::size(kHeads)];
    const std::size_t mix = i % length_mixes().size();
    const Packing packing = i % 2 == 0 ? Packing::queries : Packing::batched;
    GuardedCall call = paged_call(problem, length_mixes()[mix], packing, page_sizes[c[1]],
                                  i / 2 % 2 == 0 ? guarded_bshd : guarded_bhsd);
    INFO(configs[c[0]], ", mix ", mix);
    Context context(pinned(configs[c[0]], call.problem));
    run_and_expect_contract(context, call);
    ++i;
  }
}

AttentionProblem grouped(MaskKind mask = MaskKind::causal_bottom_right) {
  return {.head_dim = 64, .mask = mask, .heads_q = 4, .heads_kv = 2};
}

const Lengths kDecoding({1, 1, 1, 1, 1}, {0, 1, 63, 130, 64});

}  // namespace

TEST_CASE("pages: any size, with every variant, on mma.sync") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  expect_contracts(kMmaConfigs, {1, 7, 16, 64, 256});
}

TEST_CASE("pages: any size, with every variant, of 8-bit keys and values") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  expect_contracts(kMmaConfigs, {1, 7, 16, 64, 256}, KvType::e4m3);
}

TEST_CASE("pages: any size, with every variant, of 8-bit keys and values that are widened") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  expect_contracts(kConfigs90, {1, 7, 16, 256}, KvType::e4m3,
                   false);  // the keys of missing pages are not widened
}

TEST_CASE("pages: sizes that TMA can load, with every variant, with forward_sm90") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  expect_contracts(kConfigs90, {16, 48, 64, 256});
}

TEST_CASE("pages: sizes that TMA cannot load, with every variant, with forward_sm90") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  expect_contracts(kGathering90, {1, 2, 7, 8, 100});
}

TEST_CASE("pages: rows aligned only to one element") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  GuardedCall call = paged_call(grouped(), kDecoding, Packing::batched, 16, misaligned);
  Context context(untuned());
  run_and_expect_contract(context, call);
}

TEST_CASE("pages: sequences that share their first pages, and one page used many times") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const Lengths lengths({3, 1, 2}, {100, 90, 64});
  for (const int page_size : {1, 16}) {
    GuardedCall call = paged_call(grouped(), lengths, Packing::batched, page_size);
    call.randomize(9);
    auto& table = call.tables.page_table;
    const auto stride = call.args.page_table_stride;
    std::copy_n(table.begin(), 32 / page_size, table.begin() + stride);
    std::fill_n(table.begin() + 2 * stride, 64 / page_size, table[0]);
    call.upload();
    Context context(untuned());
    run_and_expect_contract(context, call);
  }
}

TEST_CASE("pages: one plan serves any table and any lengths") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  GuardedCall call = paged_call(grouped(MaskKind::none), kDecoding, Packing::batched, 16);
  Context context(untuned());
  const AttentionPlan plan = context.plan(call.problem, device_under_test());
  unsigned seed = 1;
  for (const Lengths& lengths : {kDecoding, Lengths({1, 0, 1, 1, 1}, {159, 16, 17, 0, 15}), kDecoding}) {
    call.randomize(seed);
    set_lengths(call, lengths, Packing::batched);
    set_pages(call, lengths, seed++);
    poison_pages(call);
    call.upload();
    plan.run(call.args);
    expect_contract(call);
  }
}

// The table ends with the last sequence's last page, so the interpreter reports a load behind it.
TEST_CASE("pages: entries of the table beyond a sequence's length are not read") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const Lengths lengths({1, 1}, {10, 64});
  const std::vector<std::pair<std::string, int>> cases = {
      {kMmaConfigs[2], 16}, {kConfigs90[1], 16}, {kGathering90[2], 4}, {kGathering90[0], 1}};
  for (const auto& [config, page_size] : cases) {
    if (config.starts_with("kernel=forward_sm90") && cannot_run_sm_90a()) continue;
    AttentionProblem p = with_pages(grouped(), lengths, Packing::batched, page_size);
    p.seqlen_k = 64;
    GuardedCall call(p);
    set_lengths(call, lengths, Packing::batched);
    set_pages(call, lengths, 5);
    poison_pages(call);
    call.upload();
    Context context(pinned(config, call.problem));
    run_and_expect_contract(context, call);
  }
}

TEST_CASE("pages: the same bits as contiguous keys") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  GuardedCall paged = paged_call(grouped(), kDecoding, Packing::batched, 16);
  GuardedCall plain(with_lengths(grouped(), kDecoding, Packing::batched));
  set_lengths(plain, kDecoding, Packing::batched);
  const std::vector<reference::Sequence> sequences = paged.sequences();
  plain.q = paged.q;
  for (std::size_t b = 0; b < sequences.size(); ++b) {
    const auto batch = static_cast<std::int64_t>(b);
    const AttentionArgs tables = paged.rule().numbers;
    reference::put_rows(reference::keys_of(paged.problem, paged.k, sequences[b], batch, tables),
                        sequences[b].k, plain.k);
    reference::put_rows(reference::keys_of(paged.problem, paged.v, sequences[b], batch, tables),
                        sequences[b].k, plain.v);
  }
  plain.upload();
  ContextOptions options = untuned();
  options.config = parse_config(kMmaConfigs[1]);
  Context context(options);
  run_and_expect_contract(context, paged);
  run_and_expect_contract(context, plain);
  CHECK(bits_of(paged.out(), paged.problem.dtype) == bits_of(plain.out(), plain.problem.dtype));
}

TEST_CASE(
    "pages: a table entry that names no page is an error before the launch, unless no kernel reads it") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const ScopedEnvironment checked("FA2_CHECK", "1");
  Context context(untuned());
  for (const std::int32_t page : {-1, 1000, std::numeric_limits<std::int32_t>::max()}) {
    GuardedCall call = paged_call(grouped(), kDecoding, Packing::batched, 16);
    const auto row = static_cast<std::size_t>(call.args.page_table_stride) * 3;
    call.tables.page_table[row + 9] = page;  // of keys 144 and later, in a sequence of 130
    call.upload();
    run_and_expect_contract(context, call);
    call.tables.page_table[row + 8] = page;
    call.upload();
    std::string text;
    try {
      context.attention(call.problem, call.args);
    } catch (const InvalidRequest& error) {
      text = error.what();
    }
    CHECK(text.find("page_table[3][8] = " + std::to_string(page)) != std::string::npos);
    CHECK(call.is_untouched());
  }
}
