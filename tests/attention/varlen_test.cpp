// Sequences with their own lengths, packed and batched, with every forward kernel.
#include "../support/varlen.h"

#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <generator/config_space.h>
#include <generator/kernel_spec.h>
#include <operation/rules/validate.h>
#include <runtime/device.h>
#include <runtime/device_buffer.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../support/mma_configs.h"
#include "../support/pairwise.h"

using namespace fa2;
using namespace fa2::test;

namespace {

const std::vector<std::string> kConfigs90 = {
    "kernel=forward_sm90,tile_m=128,tile_n=64,warps=8,stages=3,q_buffers=1,schedule=2,overlap=1,speculative_"
    "max=1,"
    "skip_masked=1",
    "kernel=forward_sm90,tile_m=64,tile_n=32,warps=4,stages=4,ctas_per_sm=2,q_buffers=2,schedule=2,"
    "speculative_max=1,"
    "skip_masked=1",
    "kernel=forward_sm90,tile_m=192,tile_n=48,warps=12,stages=3,q_buffers=2,schedule=2,overlap=1,pingpong=1,"
    "speculative_max=1,skip_masked=1",
    "kernel=forward_sm90,tile_m=128,tile_n=32,warps=8,stages=2,q_buffers=1,schedule=1,overlap=1",
    "kernel=forward_sm90,tile_m=64,tile_n=64,warps=4,stages=2,ctas_per_sm=2,q_buffers=1,schedule=0,overlap=1",
    "kernel=forward_sm90,tile_m=64,tile_n=32,warps=4,stages=4,ctas_per_sm=2,q_buffers=1,schedule=3,overlap=1,"
    "skip_masked=1",
    "kernel=forward_sm90,tile_m=128,tile_n=16,warps=8,stages=3,q_buffers=2,schedule=3,speculative_max=1"};

constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left};
constexpr std::pair<std::int32_t, std::int32_t> kHeadDims[] = {{64, 64}, {72, 40}, {128, 128}, {64, 32}};
constexpr std::pair<std::int64_t, std::int64_t> kHeads[] = {{1, 1}, {4, 1}, {2, 2}};

struct Window {
  std::optional<std::int64_t> left, right, chunk;
};
const Window kWindows[] = {{}, {20, {}, {}}, {33, 7, {}}, {{}, {}, 50}};

/// Returns a problem with the traits of `c`: no grouped heads, no sizes.
AttentionProblem problem_of(const Combination& c) {
  const auto& [dim, dim_v] = kHeadDims[c[1]];
  AttentionProblem p{.head_dim = dim, .head_dim_v = dim_v, .mask = kMasks[c[2]]};
  p.window_left = kWindows[c[3]].left;
  p.window_right = kWindows[c[3]].right;
  p.attention_chunk = kWindows[c[3]].chunk;
  p.softcap = c[4] == 1;
  p.alibi = c[5] == 1;
  p.sinks = c[6] == 1;
  p.dtype = c[7] == 1 ? DType::bf16 : DType::f16;
  return p;
}

AttentionProblem plain(MaskKind mask) {
  return {.head_dim = 64, .mask = mask, .heads_q = 2, .heads_kv = 1};
}

/// Returns options for a context whose plans use this config if the problem allows it.
ContextOptions pinned(const std::string& config, const AttentionProblem& problem) {
  ContextOptions options = untuned();
  options.config = parse_config(config);
  options.config->skip_masked &= has_edges(problem);
  return options;
}

GuardedCall call_of(const AttentionProblem& problem, const Lengths& lengths, Packing packing,
                    MakeLayout layout = guarded_bshd) {
  const AttentionProblem p = with_lengths(problem, lengths, packing);
  GuardedCall call(p, layouts_of(p, layout));
  set_lengths(call, lengths, packing);
  poison_unseen(call);
  call.upload();
  return call;
}

/// CHECKs each kernel that the pairs ask for, on two mixes of lengths and two packings.
void expect_contracts(const std::vector<std::string>& configs) {
  std::size_t i = 0;
  for (const Combination& c :
       pairwise({configs.size(), std::size(kHeadDims), std::size(kMasks), std::size(kWindows), 2, 2, 2, 2})) {
    AttentionProblem problem = problem_of(c);
    Context context(pinned(configs[c[0]], problem));
    for (std::size_t n = 0; n < 2; ++n, ++i) {
      std::tie(problem.heads_q, problem.heads_kv) = kHeads[(i + i / 9) % std::size(kHeads)];
      const std::size_t mix = i % length_mixes().size();
      GuardedCall call = call_of(problem, length_mixes()[mix], kPackings[i % 4],
                                 i / 4 % 2 == 0 ? guarded_bshd : guarded_bhsd);
      vary_numbers(call, i);
      call.upload();
      INFO(configs[c[0]], ", mix ", mix);
      run_and_expect_contract(context, call);
    }
  }
}

/// CHECKs that sequence `b` alone in a batch has the O and LSE that `call` has for it.
void expect_batched_bits(Context& context, const GuardedCall& call, std::size_t b) {
  const reference::Sequence sequence = call.sequences()[b];
  GuardedCall alone(reference::problem_of(call.problem, sequence));
  alone.q = reference::rows_of(call.q, sequence.q);
  alone.k = reference::rows_of(call.k, sequence.k);
  alone.v = reference::rows_of(call.v, sequence.k);
  alone.upload();
  context.attention(alone.problem, alone.args);
  const DType dtype = call.problem.dtype;
  CHECK(bits_of(alone.out(), dtype) == bits_of(reference::rows_of(call.out(), sequence.q), dtype));
  const reference::Tensor lse{1, call.problem.heads_q, call.out().rows, 1, call.lse()};
  CHECK(alone.lse() == reference::rows_of(lse, sequence.q).values);
}

/// Returns configs of forward_sm80 and forward_sm90; the latter with one warpgroup and several, persistent
/// and not.
std::vector<std::string> configs_of_both() {
  if (cannot_run_sm_90a()) return {kMmaConfigs[1]};
  return {kMmaConfigs[1], kConfigs90[0], kConfigs90[3], kConfigs90[4]};
}

}  // namespace

TEST_CASE("varlen keeps the numerics contract on mma.sync") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  expect_contracts(kMmaConfigs);
}

TEST_CASE("forward_sm90: varlen keeps the numerics contract") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  expect_contracts(kConfigs90);
}

TEST_CASE("forward_sm90: varlen and packed heads") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  const Lengths few({1, 9, 0, 17, 3}, {130, 40, 7, 0, 64});
  for (const MaskKind mask : kMasks) {
    AttentionProblem problem = plain(mask);
    problem.heads_q = 8;
    problem.sinks = mask == MaskKind::causal_bottom_right;
    problem.window_left = mask == MaskKind::none ? std::optional<std::int64_t>(20) : std::nullopt;
    Context context(pinned(
        "kernel=forward_sm90,tile_m=64,tile_n=32,warps=4,stages=3,ctas_per_sm=2,q_buffers=1,schedule=2,"
        "overlap=1",
        problem));
    for (const Packing packing : kPackings) {
      const GuardedCall call = call_of(problem, few, packing);
      run_and_expect_contract(context, call);
    }
  }
}

TEST_CASE("varlen: rows aligned only to one element") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem = plain(MaskKind::causal_bottom_right);
  problem.head_dim = 24;
  Context context(pinned(kMmaConfigs[0], problem));
  for (const Packing packing : kPackings) {
    const GuardedCall call = call_of(problem, length_mixes()[5], packing, misaligned);
    run_and_expect_contract(context, call);
  }
}

TEST_CASE("varlen: more sequences than a warp's lanes look at together") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const Lengths lengths(many_lengths(2, 150), many_lengths(7, 150));  // lanes look at 128
  AttentionProblem problem = plain(MaskKind::causal_bottom_right);
  problem.heads_q = problem.heads_kv = 1;
  for (const std::string& config : configs_of_both()) {
    INFO(config);
    Context context(pinned(config, problem));
    run_and_expect_contract(context, call_of(problem, lengths, Packing::packed));
  }
}

// A sequence has the tiles, the KV blocks and their order that it has alone.
TEST_CASE("varlen computes the bits of batched attention of each sequence") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  std::size_t i = 0;
  for (const std::string& config : configs_of_both()) {
    INFO(config);
    AttentionProblem problem = plain(kMasks[i % 3]);
    if (i % 2 == 1) problem.window_left = 30;
    problem.alibi = i % 2 == 0;
    Context context(pinned(config, problem));
    const GuardedCall call = call_of(problem, length_mixes()[i % 2 == 0 ? 7 : 8], kPackings[i % 4]);
    context.attention(call.problem, call.args);
    for (std::size_t b = 0; b < call.sequences().size(); ++b) {
      INFO("sequence ", b);
      expect_batched_bits(context, call, b);
    }
    ++i;
  }
}

TEST_CASE("varlen: with batch_invariant the chosen kernel gives each sequence the bits that it has alone") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem = plain(MaskKind::causal_bottom_right);
  problem.batch_invariant = true;
  Context context(untuned());
  for (const Lengths& lengths : {length_mixes()[7], Lengths({1, 40, 2, 1}, {1100, 300, 700, 50})}) {
    const GuardedCall call = call_of(problem, lengths, Packing::packed);
    context.attention(call.problem, call.args);
    expect_contract(call);
    for (std::size_t b = 0; b < call.sequences().size(); ++b) {
      INFO("sequence ", b);
      expect_batched_bits(context, call, b);
    }
  }
}

TEST_CASE("varlen: a sequence of NaN leaves the others finite and right") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (const std::string& config : configs_of_both()) {
    INFO(config);
    const AttentionProblem problem = plain(MaskKind::none);
    Context context(pinned(config, problem));
    for (const std::size_t b : {0, 1, 2}) {
      GuardedCall call = call_of(problem, Lengths({10, 20, 5}, {30, 41, 15}), Packing::packed);
      const reference::Sequence sequence = call.sequences()[b];
      poison(call.q, sequence.q);
      poison(call.k, sequence.k);
      poison(call.v, sequence.k);
      call.upload();
      run_and_expect_contract(context, call);
    }
  }
}

TEST_CASE("varlen: one plan serves any lengths") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (const std::string& config : configs_of_both()) {
    INFO(config);
    const AttentionProblem problem = plain(MaskKind::causal_bottom_right);
    Context context(pinned(config, problem));
    GuardedCall call = call_of(problem, Lengths({50, 65, 1, 20}), Packing::roomy);
    const AttentionPlan plan = context.plan(call.problem, device_under_test());
    for (const Lengths& lengths : {Lengths({50, 65, 1, 20}), Lengths({0, 0, 0, 0}), Lengths({3, 5, 64, 7}),
                                   Lengths({0, 65, 65, 0}, {66, 0, 50, 20})}) {
      call.randomize(11);
      set_lengths(call, lengths, Packing::roomy);
      poison_unseen(call);
      call.upload();
      plan.run(call.args);
      expect_contract(call);
    }
  }
}

TEST_CASE("varlen: a sequence longer than seqlen is cut") {
  if (cannot_run()) return;
  if (device_under_test() == kInterpreterDevice) {
    MESSAGE("skipped: the interpreter refuses such tables before the launch");
    return;
  }
  const ScopedContext current(device_under_test());
  for (const std::string& config : configs_of_both()) {
    INFO(config);
    AttentionProblem problem =
        with_lengths(plain(MaskKind::causal_bottom_right), Lengths({70, 90, 30}), Packing::packed);
    problem.seqlen_q = 65;
    problem.seqlen_k = 80;
    GuardedCall call(problem, layouts_of(problem, guarded_bshd));
    set_lengths(call, Lengths({70, 90, 30}), Packing::packed);
    poison_unseen(call);
    call.upload();
    Context context(pinned(config, problem));
    run_and_expect_contract(context, call);
  }
}
