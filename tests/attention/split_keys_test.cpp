// Split KV: the keys are shared evenly among any number of blocks, splits have any size, and the last block
// to finish merges them.
#include <api/context.h>
#include <api/plan.h>
#include <doctest/doctest.h>
#include <planning/forward.h>
#include <runtime/device.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../support/varlen.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr const char* kOneWarpgroup =
    "kernel=forward_sm90,tile_m=64,tile_n=32,warps=4,stages=4,ctas_per_sm=2,q_buffers=1,schedule=3,overlap=1";
constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left};
constexpr const char* kTwoWarpgroups =
    "kernel=forward_sm90,tile_m=128,tile_n=32,warps=8,stages=3,q_buffers=2,schedule=3,overlap=1,speculative_"
    "max=1";

constexpr const char* kWarps = "kernel=forward_split,tile_m=16,tile_n=16,warps=4,stages=3";
constexpr const char* kWide =
    "kernel=forward_wide,tile_m=16,tile_n=32,warps=4,stages=2,schedule=3,column_warps=4";
constexpr const char* kWideHopper =
    "kernel=forward_wide_sm90,tile_m=64,tile_n=32,warps=8,stages=2,schedule=3,column_warps=2";

bool runs_on_hopper() {
  const std::string_view arch = device(device_under_test()).arch.name;
  return arch == "sm_90a" || arch == "interpreter";
}

/// Returns the configs that the device under test can run.
std::vector<const char*> split_configs() {
  if (!runs_on_hopper()) return {kWarps};
  return {kOneWarpgroup, kTwoWarpgroups, kWarps};
}

/// Returns the config `number`, modulo their count.
const char* kernel(std::size_t number) {
  const std::vector<const char*> all = split_configs();
  return all[number % all.size()];
}

/// Returns a decode problem with groups of four query heads.
AttentionProblem decode(std::int64_t queries, std::int64_t keys, MaskKind mask = MaskKind::none) {
  return {.head_dim = 64,
          .mask = mask,
          .batch = 3,
          .heads_q = 8,
          .heads_kv = 2,
          .seqlen_q = queries,
          .seqlen_k = keys};
}

/// Returns a plan with as many blocks as a GPU of `sm_count` SMs runs at once.
AttentionPlan plan_of(const AttentionProblem& problem, const std::string& text, int sm_count) {
  const Device& gpu = device(device_under_test());
  KernelConfig config = parse_config(text);
  config.skip_masked = config.kernel == KernelId::forward_sm90 && has_edges(problem);
  Context context(untuned());
  auto plan = std::make_shared<Plan>();
  plan->problem = {problem.normalized(), {}};
  plan->device = gpu.ordinal;
  plan->scratch = std::make_shared<const ScratchPool>();
  const KernelSpec spec{traits_of(plan->problem), config, gpu.arch};
  Step step = forward_step(plan->problem, config, context.impl().load_kernel(spec, gpu).kernel, sm_count);
  step.context_counters = std::make_shared<LaunchCounters>(
      counter_sizes(static_cast<std::uint32_t>(step.counters.bytes / sizeof(std::uint32_t))));
  plan->add(std::move(step));
  return AttentionPlan(std::move(plan));
}

/// A workspace with zeros in the counters and garbage in the partial outputs.
class Workspace {
 public:
  explicit Workspace(const AttentionPlan& plan)
      : counters_(plan.workspace_zeros()), memory_(plan.workspace_bytes()) {
    std::vector<std::byte> image(memory_.size(), std::byte{0xff});
    std::fill_n(image.begin(), counters_, std::byte{0});
    memory_.upload(image.data(), image.size());
  }

  void* data() const { return memory_.data(); }
  bool counts_from_zero() const {
    const auto image = downloaded<std::byte>(memory_);
    return std::all_of(image.begin(), image.begin() + static_cast<std::ptrdiff_t>(counters_),
                       [](std::byte b) { return b == std::byte{0}; });
  }

 private:
  std::size_t counters_;
  DeviceBuffer memory_;
};

/// Runs the plan twice: the second launch uses the counters as the first has left them.
void expect_contract_with(const AttentionPlan& plan, GuardedCall& call) {
  const Workspace workspace(plan);
  call.args.workspace = workspace.data();
  for (int launch = 0; launch < 2; ++launch) {
    call.upload();
    plan.run(call.args);
    expect_contract(call);
    CHECK(workspace.counts_from_zero());
  }
  call.args.workspace = nullptr;
}

/// CHECKs that sequence `b` alone, on a GPU of `sm_count` SMs, has the O and LSE that `call` has for it.
void expect_bits_alone(const GuardedCall& call, std::size_t b, const char* config, int sm_count) {
  const reference::Sequence sequence = call.sequences()[b];
  GuardedCall alone(reference::problem_of(call.problem, sequence));
  alone.q = reference::rows_of(call.q, sequence.q);
  alone.k = reference::rows_of(call.k, sequence.k);
  alone.v = reference::rows_of(call.v, sequence.k);
  expect_contract_with(plan_of(alone.problem, config, sm_count), alone);
  CHECK(bits_of(alone.out(), call.problem.dtype) ==
        bits_of(reference::rows_of(call.out(), sequence.q), call.problem.dtype));
  reference::Tensor lse = call.out();
  lse.dim = 1, lse.values = call.lse();
  CHECK(alone.lse() == reference::rows_of(lse, sequence.q).values);
}

}  // namespace

TEST_CASE("split KV: any number of blocks, fewer than tiles and more than KV blocks") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  std::size_t i = 0;
  for (const int sm_count : {1, 2, 3, 7, 40}) {
    for (const char* const config : split_configs()) {
      const MaskKind mask = i % 2 == 0 ? MaskKind::causal_bottom_right : MaskKind::none;
      AttentionProblem problem = decode(i % 3 == 0 ? 1 : 5, i % 4 == 3 ? 31 : 333, mask);
      if (i % 5 == 2) problem.seqlen_q = 150;  // tiles that see more and more keys
      if (i % 5 == 3) problem.window_left = 100;
      if (i % 5 == 4) problem.attention_chunk = 150;
      INFO(config, ", ", sm_count, " SMs");
      GuardedCall call(problem);
      expect_contract_with(plan_of(problem, config, sm_count), call);
      ++i;
    }
  }
}

TEST_CASE("split KV: latents, whose values are in their keys, and wide heads") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  std::size_t i = 0;
  // The last one makes more parts of wide rows than are merged as a few.
  for (const int sm_count : {1, 3, 7, 40, 36}) {
    AttentionProblem problem =
        decode(i % 2 == 0 ? 1 : 3, 333, i % 2 == 0 ? MaskKind::none : MaskKind::causal_bottom_right);
    problem.heads_kv = 1;
    problem.values_in_keys = i % 2 == 0 && i < 4;
    problem.head_dim = problem.values_in_keys ? 192 : 264;
    problem.head_dim_v = problem.values_in_keys ? 128 : 272;
    if (i == 3) problem.head_dim = 304, problem.head_dim_v = 40;  // fewer columns than warps can share
    problem.sinks = i > 1;
    problem.batch_invariant = i == 3;
    INFO(sm_count, " SMs");
    GuardedCall call(problem);
    expect_contract_with(plan_of(problem, kWide, sm_count), call);
    if (runs_on_hopper() && problem.head_dim_v >= 128)
      expect_contract_with(plan_of(problem, kWideHopper, sm_count), call);
    ++i;
  }
}

TEST_CASE("split KV: stacks of tiles, in thread blocks of their own or with others") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (const char* const config : split_configs()) {
    for (const int sm_count : {5, 6, 8, 10, 12, 26}) {
      const bool has_rest = sm_count < 10;
      AttentionProblem problem =
          decode(128, has_rest ? 333 : 150, has_rest ? MaskKind::none : MaskKind::causal_bottom_right);
      problem.batch = 1, problem.heads_q = 4;  // the tiles of a stack are of two query heads
      INFO(config, ", ", sm_count, " SMs");
      GuardedCall call(problem);
      expect_contract_with(plan_of(problem, config, sm_count), call);
    }
  }
}

TEST_CASE("split KV: thread blocks that go on from one stack to the next") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (const auto& [keys, sm_count] : {std::pair{333, 8}, {400, 10}}) {
    AttentionProblem problem = decode(150, keys, MaskKind::causal_bottom_right);
    problem.heads_q = 2;
    INFO(keys, " keys, ", sm_count, " SMs");
    GuardedCall call(problem);
    const AttentionPlan plan = plan_of(problem, kernel(1), sm_count);
    for (int run = 0; run < 2; ++run) {  // the second one finds the first one's counters
      call.upload();
      expect_contract_with(plan, call);
    }
  }
}

TEST_CASE("split KV: stacks of unequal heights and lengths") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const Lengths lengths({100, 20, 0, 150}, {333, 90, 64, 600});
  for (const MaskKind mask : {MaskKind::none, MaskKind::causal_bottom_right}) {
    AttentionProblem some = decode(1, 1, mask);
    some.heads_q = 4;
    const AttentionProblem problem = with_lengths(some, lengths, Packing::packed);
    GuardedCall call(problem);
    set_lengths(call, lengths, Packing::packed);
    poison_unseen(call);
    for (const char* const config : split_configs()) {
      for (const int sm_count : {7, 9, 13, 16, 20, 33, 64}) {
        INFO(config, ", ", sm_count, " SMs");
        call.upload();
        expect_contract_with(plan_of(problem, config, sm_count), call);
      }
    }
  }
}

TEST_CASE("split KV: more splits of a tile than a warp has lanes") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem = decode(2, 2300, MaskKind::causal_bottom_right);
  problem.batch = problem.heads_kv = 1;
  problem.heads_q = 4;
  GuardedCall call(problem);
  for (const char* const config : split_configs()) expect_contract_with(plan_of(problem, config, 40), call);
}

TEST_CASE("split KV: rows without a key in a tile with other rows") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  GuardedCall call(decode(150, 100, MaskKind::causal_bottom_right));
  for (const char* const config : split_configs())
    expect_contract_with(plan_of(call.problem, config, 40), call);
}

// Exponents near 2^20: a float there cannot hold the sixteenths by which splits differ.
TEST_CASE("split KV: large scores that differ little from split to split") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  GuardedCall call(decode(1, 333));
  call.args.softmax_scale = 10;
  for (std::int64_t b = 0; b < call.problem.batch; ++b) {
    for (std::int64_t h = 0; h < call.problem.heads_q; ++h) {
      for (std::int64_t d = 0; d < call.q.dim; ++d) call.q.at(b, h, 0, d) = d < 2 ? 1.0f : 0.0f;
    }
    for (std::int64_t h = 0; h < call.problem.heads_kv; ++h) {
      for (std::int64_t j = 0; j < call.problem.seqlen_k; ++j)
        call.k.at(b, h, j, 0) = 60000.0f, call.k.at(b, h, j, 1) = 0.03125f * static_cast<float>(j / 32);
    }
  }
  for (const char* const config : split_configs())
    expect_contract_with(plan_of(call.problem, config, 9), call);
}

TEST_CASE("split KV: sequences of any lengths, whatever lies around them") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  constexpr int kManySms = 13;  // a block begins with one of 34 sequences after the 32 that lanes look at
  std::size_t i = 0;
  for (const Lengths& lengths : length_mixes()) {
    AttentionProblem problem = decode(1, 1, i % 2 == 0 ? MaskKind::none : MaskKind::causal_bottom_right);
    problem.softcap = i % 3 == 1;
    problem.alibi = i % 3 == 2;
    problem.sinks = i % 4 != 0;  // a sink counts once, however many splits there are
    const Packing packing = kPackings[i % 4];
    const AttentionProblem p = with_lengths(problem, lengths, packing);
    INFO("mix ", i, " of ", to_string(p));
    GuardedCall call(p);
    set_lengths(call, lengths, packing);
    poison_unseen(call);
    call.upload();
    expect_contract_with(plan_of(p, kernel(i), i % 3 == 0 ? 3 : kManySms), call);
    if (kernel(i) != kWarps) expect_contract_with(plan_of(p, kWarps, i % 3 == 1 ? 3 : kManySms), call);
    ++i;
  }
}

TEST_CASE("split KV: more sequences than a warp's lanes look at together") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  constexpr int kSequences = 150;  // lanes look at 128
  const Lengths lengths(std::vector<std::int32_t>(kSequences, 1), many_lengths(7, kSequences));
  const AttentionProblem problem = with_lengths(decode(1, 1), lengths, Packing::batched);
  for (const char* const config : split_configs()) {
    GuardedCall call(problem);
    set_lengths(call, lengths, Packing::batched);
    poison_unseen(call);
    call.upload();
    for (const int sms : {3, 13}) expect_contract_with(plan_of(problem, config, sms), call);
  }
}

TEST_CASE("split KV: one plan serves any lengths") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const AttentionProblem problem =
      with_lengths(decode(1, 1), {{1, 1, 1, 1}, {200, 90, 7, 33}}, Packing::batched);
  for (const char* const config : split_configs()) {
    const AttentionPlan plan = plan_of(problem, config, 4);
    GuardedCall call(problem);
    for (const Lengths& lengths :
         {Lengths({1, 1, 1, 1}, {200, 90, 7, 33}), Lengths({1, 1, 1, 1}, {0, 0, 0, 0}),
          Lengths({0, 1, 0, 1}, {3, 200, 64, 1}), Lengths({0, 0, 0, 0})}) {
      call.randomize(3);
      set_lengths(call, lengths, Packing::batched);
      poison_unseen(call);
      expect_contract_with(plan, call);
    }
  }
}

TEST_CASE("split KV: the same bits in every run, in memory that the context provides") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  GuardedCall call(decode(3, 500));
  call.args.lse = nullptr;
  for (const char* const config : split_configs()) {
    const AttentionPlan plan = plan_of(call.problem, config, 9);
    plan.run(call.args);
    expect_contract(call);
    const auto bits = bits_of(call.out(), call.problem.dtype);
    for (int run = 0; run < 5; ++run) {
      call.upload();
      plan.run(call.args);
      CHECK(bits_of(call.out(), call.problem.dtype) == bits);
    }
  }
}

TEST_CASE(
    "split KV: NaN in one head stays in its group, and in a key it stays in the rows that see the key") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  GuardedCall call(decode(2, 200, MaskKind::causal_bottom_right));
  for (std::int64_t d = 0; d < call.k.dim; ++d)
    call.k.at(1, 0, 199, d) = std::nanf("");  // only the last query sees it
  for (const char* const config : split_configs()) {
    call.upload();
    const AttentionPlan plan = plan_of(call.problem, config, 6);
    plan.run(call.args);
    expect_contract(call);
    const reference::Tensor o = call.out();
    CHECK(std::isnan(o.at(1, 3, 1, 0)));
    CHECK_FALSE(std::isnan(o.at(1, 4, 1, 0)));
  }
}

TEST_CASE("split KV: with fixed split boundaries, any number of blocks") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  std::size_t i = 0;
  for (const int sm_count : {1, 2, 3, 7, 40}) {
    AttentionProblem problem = decode(i % 2 == 0 ? 1 : 7, 1300, kMasks[i % std::size(kMasks)]);
    problem.batch_invariant = true;
    problem.sinks = i % 2 == 1;
    if (i == 2) problem.window_left = 1100;
    if (i == 3) problem.seqlen_q = 70;  // whole tiles
    if (i == 4) problem.batch = problem.heads_kv = 1, problem.heads_q = 4, problem.seqlen_k = 9000;
    INFO(to_string(problem), ", ", sm_count, " SMs");
    GuardedCall call(problem);
    expect_contract_with(plan_of(problem, kernel(i), sm_count), call);
    if (kernel(i) != kWarps) expect_contract_with(plan_of(problem, kWarps, sm_count), call);
    ++i;
  }
}

// The number of blocks, the other sequences and the longest length all change; the bits must not.
TEST_CASE("split KV: with fixed split boundaries a sequence has the bits that it has alone") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  const Lengths lengths({1, 3, 0, 30, 1, 1}, {1300, 2100, 40, 900, 513, 0});
  for (const char* const config : split_configs()) {
    AttentionProblem problem = decode(1, 1, MaskKind::causal_bottom_right);
    problem.batch_invariant = problem.sinks = true;
    const AttentionProblem p = with_lengths(problem, lengths, Packing::packed);
    GuardedCall call(p);
    set_lengths(call, lengths, Packing::packed);
    poison_unseen(call);
    expect_contract_with(plan_of(p, config, 5), call);
    for (std::size_t b = 0; b < lengths.q.size(); ++b) {
      CAPTURE(b);
      if (lengths.q[b] > 0) expect_bits_alone(call, b, config, b % 2 == 0 ? 1 : 20);
    }
  }
}
