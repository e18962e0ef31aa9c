// Windows, softcap, ALiBi, sinks, dropout, bases of LSE and largest logits: alone, in pairs and all together, with
// every forward kernel.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <generator/config_space.h>
#include <generator/kernel_spec.h>
#include <operation/rules/validate.h>
#include <runtime/device.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../support/error_ratios.h"
#include "../support/gpu_attention.h"
#include "../support/mma_configs.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The variants of a problem, in addition to its mask.
struct Variant {
  std::optional<std::int64_t> window_left = {}, window_right = {};
  bool softcap = false, alibi = false, sinks = false, dropout = false;
  LseBase lse_base = LseBase::natural;
  bool max_logits = false;
};

/// Each variant alone, each pair of the first five, and all of these.
const std::vector<Variant> kVariants = {
    {.window_left = 20},
    {.softcap = true},
    {.window_left = 0, .alibi = true},
    {.sinks = true},
    {.window_right = 7},
    {.alibi = true, .sinks = true},
    {.window_left = 50, .window_right = 0, .softcap = true},
    {.alibi = true},
    {.window_left = 33, .sinks = true},
    {.softcap = true, .alibi = true},
    {.window_left = 70, .window_right = 31},
    {.softcap = true, .sinks = true},
    {.window_left = 19, .window_right = 40, .softcap = true, .alibi = true, .sinks = true},
    {.dropout = true},
    {.window_left = 20, .dropout = true},
    {.softcap = true, .dropout = true},
    {.alibi = true, .dropout = true},
    {.sinks = true, .dropout = true},
    {.window_right = 40, .softcap = true, .alibi = true, .sinks = true, .dropout = true},
    {.lse_base = LseBase::two},
    {.window_left = 20, .sinks = true, .lse_base = LseBase::two},
    {.max_logits = true},
    {.window_left = 20, .max_logits = true},
    {.softcap = true, .max_logits = true},
    {.window_right = 7, .alibi = true, .sinks = true, .max_logits = true},
    {.softcap = true, .alibi = true, .dropout = true, .lse_base = LseBase::two, .max_logits = true}};

AttentionProblem with(const Variant& variant, AttentionProblem problem) {
  problem.window_left = variant.window_left;
  problem.window_right = variant.window_right;
  problem.softcap = variant.softcap;
  problem.alibi = variant.alibi;
  problem.sinks = variant.sinks;
  problem.dropout = variant.dropout;
  problem.lse_base = variant.lse_base;
  problem.max_logits = variant.max_logits;
  return problem;
}

AttentionProblem problem_of(DType dtype, MaskKind mask, int dim, int seqlen_q, int seqlen_k) {
  AttentionProblem p;
  p.dtype = dtype;
  p.mask = mask;
  p.head_dim = dim;
  p.batch = 2;
  p.heads_q = 4;
  p.heads_kv = 2;
  p.seqlen_q = seqlen_q;
  p.seqlen_k = seqlen_k;
  return p;
}

const std::vector<std::string> kConfigs90 = {
    "kernel=forward_sm90,tile_m=128,tile_n=64,warps=8,stages=3,q_buffers=1,schedule=2,overlap=1,speculative_"
    "max=1,"
    "skip_masked=1",
    "kernel=forward_sm90,tile_m=64,tile_n=32,warps=4,stages=4,ctas_per_sm=2,q_buffers=2,schedule=2,"
    "speculative_max=1,"
    "skip_masked=1",
    "kernel=forward_sm90,tile_m=192,tile_n=48,warps=12,stages=3,q_buffers=2,schedule=2,overlap=1,pingpong=1,"
    "speculative_max=1,skip_masked=1",
    "kernel=forward_sm90,tile_m=128,tile_n=32,warps=8,stages=2,q_buffers=1,schedule=1,overlap=1"};

constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left};

/// Runs a call with each config that can compute it on this device.
void expect_contract_with(GuardedCall& call, const std::vector<std::string>& configs) {
  int ran = 0;
  for (const std::string& config : configs) {
    ContextOptions options = untuned();
    options.config = parse_config(config);
    options.config->skip_masked &= has_edges(call.problem);
    const PlannedProblem planned(call.problem,
                                 options_kept_by(call.problem, operands_of(call.problem, call.args)));
    if (why_rejected(planned, *options.config, device(device_under_test()).arch)) continue;
    Context context(options);
    INFO(config);
    call.upload();
    run_and_expect_contract(context, call);
    ++ran;
  }
  CHECK(ran >= 1);
}

/// Adds the errors of O, which a kernel has written.
void add_errors(const GuardedCall& call, ErrorRatios& ratios) {
  const reference::ScoreRule rule = call.rule();
  const reference::Tensor exact = reference::attention_f64(call.problem, call.q, call.k, call.v, rule).out;
  ratios.add(reference::errors_of(call.out(), exact),
             reference::errors_of(
                 reference::attention_fused_baseline(call.problem, call.q, call.k, call.v, rule), exact));
}

/// CHECKs every variant. Masks (on the interpreter two of three), dtypes, head dims, lengths and configs
/// change from one to the next. Each runs with N(0, 1) queries and with larger ones, with which few keys
/// dominate a row.
void expect_contracts(const std::vector<std::string>& configs) {
  const std::array<std::pair<int, int>, 5> lengths = {{{131, 197}, {97, 97}, {200, 61}, {1, 150}, {70, 300}}};
  const std::array<int, 4> head_dims = {64, 40, 128, 16};
  const std::size_t masks = device_under_test() == kInterpreterDevice ? 2 : 3;
  std::map<float, ErrorRatios> ratios;
  std::size_t i = 0, first_mask = 0;
  for (const Variant& variant : kVariants) {
    for (std::size_t m = 0; m < masks; ++m) {
      const MaskKind mask = kMasks[(first_mask + m) % 3];
      const auto& [sq, sk] = lengths[i % lengths.size()];
      const DType dtype = i % 2 == 0 ? DType::f16 : DType::bf16;
      GuardedCall call(with(variant, problem_of(dtype, mask, head_dims[i / 2 % head_dims.size()], sq, sk)));
      if (i % 4 == 1) call.args.softmax_scale = -0.3f;
      for (const float q_scale : {1.0f, 12.0f, 60.0f}) {
        call.randomize(7);
        for (float& x : call.q.values) x = round_to(x * q_scale, dtype);
        INFO("queries times ", q_scale);
        expect_contract_with(call, {configs[i % configs.size()]});
        add_errors(call, ratios[q_scale]);
      }
      ++i;
    }
    ++first_mask;
  }
  for (const auto& errors : ratios) {
    INFO("errors of queries times ", errors.first);
    errors.second.expect_contract();
  }
}

/// Sets the keys and values [begin, end) to NaN.
void poison(GuardedCall& call, std::int64_t begin, std::int64_t end) {
  for (reference::Tensor* tensor : {&call.k, &call.v}) {
    for (std::int64_t b = 0; b < tensor->batch; ++b) {
      for (std::int64_t h = 0; h < tensor->heads; ++h) {
        for (std::int64_t j = begin; j < end; ++j) {
          for (std::int64_t d = 0; d < tensor->dim; ++d) tensor->at(b, h, j, d) = kNaN;
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("variants keep the numerics contract on mma.sync") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  expect_contracts(kMmaConfigs);
}

TEST_CASE("forward_sm90: variants keep the numerics contract") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  expect_contracts(kConfigs90);
}

TEST_CASE("forward_sm90: variants with packed heads") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  const std::string config =
      "kernel=forward_sm90,tile_m=64,tile_n=32,warps=4,stages=3,ctas_per_sm=2,q_buffers=1,schedule=2,overlap="
      "1";
  for (const Variant& variant : kVariants) {
    if (variant.dropout) continue;  // dropout does not support packed heads
    AttentionProblem problem =
        with(variant, problem_of(DType::f16, MaskKind::causal_bottom_right, 64, 9, 130));
    problem.heads_q = 8;
    GuardedCall call(problem);
    expect_contract_with(call, {config});
  }
}

TEST_CASE("variants with rows aligned only to one element") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (const Variant& variant : kVariants) {
    const AttentionProblem problem = with(variant, problem_of(DType::bf16, MaskKind::none, 24, 70, 110));
    GuardedCall call(problem, layouts_of(problem, misaligned));
    expect_contract_with(call, {kMmaConfigs[0]});
  }
}

// Keys that lie outside of every window may be freed memory of a cache.
TEST_CASE("NaN outside of every query's window does not reach an output") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  struct Case {
    MaskKind mask;
    std::optional<std::int64_t> left, right;
    std::int64_t begin, end;  ///< of 200 keys, those that some of the 40 queries, the last ones, sees
  };
  for (const Case& c :
       {Case{MaskKind::causal_bottom_right, 30, {}, 130, 200}, Case{MaskKind::none, 5, 3, 155, 200},
        Case{MaskKind::causal_top_left, 30, {}, 0, 40}, Case{MaskKind::none, 159, {}, 1, 200}}) {
    AttentionProblem problem = problem_of(DType::f16, c.mask, 64, 40, 200);
    problem.window_left = c.left;
    problem.window_right = c.right;
    GuardedCall call(problem);
    poison(call, 0, c.begin);
    poison(call, c.end, 200);
    std::vector<std::string> configs = kConfigs90;
    configs.push_back(kMmaConfigs[1]);
    expect_contract_with(call, configs);
  }
}

TEST_CASE("windows of any width: no key, one key, all keys, and beyond the sequence") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  constexpr std::int64_t kHuge = std::numeric_limits<std::int32_t>::max();
  for (const auto& [left, right] :
       {std::pair<std::int64_t, std::int64_t>{0, 0}, {kHuge, kHuge}, {0, kHuge}, {kHuge, 0}, {63, 64}}) {
    for (const auto& [sq, sk] : {std::pair{90, 150}, std::pair{150, 90}}) {
      AttentionProblem problem = problem_of(DType::f16, MaskKind::none, 32, sq, sk);
      problem.window_left = left;
      problem.window_right = right;
      GuardedCall call(problem);
      expect_contract_with(call, {kMmaConfigs[1], kConfigs90[0]});
    }
  }
}

// The kernel uses a series for scores below a quarter of the cap, and another formula above.
TEST_CASE("softcaps above every score, among them, and below nearly all") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem = problem_of(DType::f16, MaskKind::causal_bottom_right, 64, 100, 330);
  problem.softcap = true;
  GuardedCall call(problem);
  for (const float cap : {1e5f, 40.0f, 12.0f, 9.0f, 0.5f, 1e-4f}) {
    for (const float scale : {0.125f, -0.125f}) {
      call.args.softcap = cap;
      call.args.softmax_scale = scale;
      INFO("softcap ", cap, ", scale ", scale);
      expect_contract_with(call, {kMmaConfigs[1], kConfigs90[0], kConfigs90[1]});
    }
  }
  for (const float scale : {0.0f, 1e-9f, 1e4f}) {
    call.args.softcap = 20;
    call.args.softmax_scale = scale;
    INFO("scale ", scale);
    expect_contract_with(call, {kMmaConfigs[1], kConfigs90[0]});
  }
}

// There are 1.5 times as many tiles as an H100 or H200 runs blocks, at two blocks per SM, as in the test of
// plain attention.
TEST_CASE("forward_sm90 and more tiles than blocks, with every variant") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem = with(kVariants.back(), problem_of(DType::f16, MaskKind::none, 16, 20, 90));
  problem.batch = 25, problem.heads_q = 16, problem.heads_kv = 4;
  GuardedCall call(problem);
  for (const std::string schedule : {"0", "1", "2"}) {
    expect_contract_with(
        call, {"kernel=forward_sm90,tile_m=64,tile_n=32,warps=4,stages=3,ctas_per_sm=2,q_buffers=2,overlap=1,"
               "speculative_max=1,skip_masked=1,schedule=" +
               schedule});
  }
}

TEST_CASE("sinks that dominate, that do not count, and rows that have nothing else") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem =
      problem_of(DType::f16, MaskKind::causal_bottom_right, 64, 120, 60);  // some rows have no keys
  problem.sinks = true;
  GuardedCall call(problem);
  call.numbers["sinks"] = {-kInfinity, 30.0f, -30.0f, 500.0f};
  for (const float scale : {0.125f, 0.0f, 1e6f}) {
    call.args.softmax_scale = scale;
    INFO("scale ", scale);
    expect_contract_with(call, {kMmaConfigs[1], kConfigs90[0]});
  }
}

TEST_CASE("ALiBi slopes per batch entry, and of either sign") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem problem = problem_of(DType::bf16, MaskKind::none, 64, 100, 140);
  problem.alibi = true;
  GuardedCall call(problem);
  call.numbers["alibi_slopes"] = {0.5f, -0.02f, 0.0f, 1.0f, 0.01f, 0.25f, -0.1f, 0.003f};
  call.args.alibi_slopes_per_batch = true;
  expect_contract_with(call, {kMmaConfigs[1], kConfigs90[0]});
}
