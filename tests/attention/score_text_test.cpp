// Functions of scores in the caller's words, with every forward kernel and in gradients, against the same functions in float64.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/score_text.h>
#include <generator/config_space.h>
#include <operation/rules/validate.h>
#include <runtime/device.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "../support/gpu_backward.h"
#include "../support/mma_configs.h"

using namespace fa2;
using namespace fa2::test;

namespace {

using At = reference::ScorePosition;

struct Case {
  std::string name;
  ScoreTexts texts;
  reference::ScoreFunctions functions;
};

std::int64_t remainder(std::int64_t a, std::int64_t b) {
  return (a % b + b) % b;
}

/// Functions that differ in every coordinate, so that two that change places show.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"relative bias",
       {.bias = "return 0.03f * (at.key - 2 * at.query) + 0.25f * at.head - 0.5f * at.batch;"},
       {.mod =
            [](double s, const At& at) {
              return s + 0.03 * static_cast<double>(at.key - 2 * at.query) +
                     0.25 * static_cast<double>(at.head) - 0.5 * static_cast<double>(at.batch);
            }}},
      {"tanh",
       {.mod = "Score x = score / 3.0f;\nreturn 3.0f * tanh(x);  // a cap"},
       {.mod = [](double s, const At&) { return 3 * std::tanh(s / 3); },
        .slope = [](double s, const At&) { return 1 - std::pow(std::tanh(s / 3), 2); }}},
      {"tanh of floats, with its slope",
       {.mod = "const float x = score / 3.0f;\nreturn 3.0f * tanh(x) + 0.5f * at.head;",
        .mod_slope = "const float t = tanh(score / 3.0f);\nreturn 1.0f - t * t;"},
       {.mod = [](double s,
                  const At& at) { return 3 * std::tanh(s / 3) + 0.5 * static_cast<double>(at.head); },
        .slope = [](double s, const At&) { return 1 - std::pow(std::tanh(s / 3), 2); }}},
      {"polynomial by position",
       {.mod = "auto gain = 1.0f + 0.1f * at.head;\nif (at.key > at.query) return score * gain;\n"
               "return max(score * abs(score) * 0.2f, Score(-2.0f)) + log(exp(score) + 1.0f)\n    + score / "
               "(abs(score) + 1.0f);"},
       {.mod =
            [](double s, const At& at) {
              if (at.key > at.query) return s * (1 + 0.1 * static_cast<double>(at.head));
              return std::max(s * std::abs(s) * 0.2, -2.0) + std::log(std::exp(s) + 1) +
                     s / (std::abs(s) + 1);
            },
        .slope =
            [](double s, const At& at) {
              if (at.key > at.query) return 1 + 0.1 * static_cast<double>(at.head);
              return (s * std::abs(s) * 0.2 > -2 ? 0.4 * std::abs(s) : 0) + 1 / (1 + std::exp(-s)) +
                     std::pow(std::abs(s) + 1, -2);
            }}},
      {"window by head, aligned at the ends",
       {.mask = "const int diagonal = at.query + at.keys - at.queries;\n"
                "return at.key <= diagonal && diagonal - at.key < 20 + 9 * at.head;"},
       {.mask =
            [](const At& at) {
              const std::int64_t diagonal = at.query + at.keys - at.queries;
              return at.key <= diagonal && diagonal - at.key < 20 + 9 * at.head;
            }}},
      {"dilated, with rows that see no key",
       {.mask = "return at.query % 4 != 1 && remainder(at.key - at.query, 3) != at.batch % 3;"},
       {.mask =
            [](const At& at) {
              return at.query % 4 != 1 && remainder(at.key - at.query, 3) != at.batch % 3;
            }}},
      {"all three, and a hidden score by the mod",
       {.bias = "return -0.02f * abs(at.query - at.key);",
        .mod = "if (at.key % 7 == 2) return -exp2(200.0f);  /* -infinity */\n"
               "return 0.1f * score * abs(score) + at.batch;",
        .mask = "return floor_div(at.key - at.query, 16) >= -3;"},
       {.mod =
            [](double s, const At& at) {
              if (at.key % 7 == 2) return -std::numeric_limits<double>::infinity();
              const double biased = s - 0.02 * std::abs(static_cast<double>(at.query - at.key));
              return 0.1 * biased * std::abs(biased) + static_cast<double>(at.batch);
            },
        .slope =
            [](double s, const At& at) {
              const double biased = s - 0.02 * std::abs(static_cast<double>(at.query - at.key));
              return at.key % 7 == 2 ? 0 : 0.2 * std::abs(biased);
            },
        .mask = [](const At& at) { return std::floor(static_cast<double>(at.key - at.query) / 16) >= -3; }}}};
  return all;
}

AttentionProblem problem_of(std::size_t i, int head_dim = 64) {
  constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left};
  AttentionProblem p = grouped_problem(i % 2 == 0 ? DType::f16 : DType::bf16, kMasks[i % 3], head_dim,
                                       i % 4 == 3 ? 5 : 131, i % 4 == 2 ? 61 : 197);
  p.score_text = make_score_text(cases()[i % cases().size()].texts);
  return p;
}

GuardedCall call_of(const AttentionProblem& problem, std::size_t i) {
  GuardedCall call(problem);
  call.functions = cases()[i % cases().size()].functions;
  return call;
}

void expect_contract_with(GuardedCall& call, const std::string& config) {
  ContextOptions options = untuned();
  options.config = parse_config(config);
  Context context(options);
  call.upload();
  INFO(config);
  run_and_expect_contract(context, call);
}

}  // namespace

TEST_CASE("score texts: every text keeps the numerics contract, with every kernel on mma.sync") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (std::size_t i = 0; i < kMmaConfigs.size() * 2; ++i) {
    AttentionProblem p = problem_of(i);
    if (i % 5 == 1) p.alibi = true;
    if (i % 5 == 2) p.softcap = true;
    if (i % 5 == 3) p.window_left = 70;
    if (i % 5 == 4) p.sinks = true;
    GuardedCall call = call_of(p, i);
    if (i % 3 == 1) call.args.softmax_scale = -0.2f;
    INFO(cases()[i % cases().size()].name);
    expect_contract_with(call, kMmaConfigs[i % kMmaConfigs.size()]);
  }
}

TEST_CASE("score texts: every text keeps the numerics contract with forward_sm90") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  const std::vector<std::string> configs = {
      "kernel=forward_sm90,tile_m=128,tile_n=64,warps=8,stages=3,q_buffers=1,schedule=2,overlap=1,"
      "speculative_max=1",
      "kernel=forward_sm90,tile_m=192,tile_n=48,warps=12,stages=3,q_buffers=2,schedule=2,overlap=1,pingpong="
      "1",
      "kernel=forward_sm90,tile_m=64,tile_n=32,warps=4,stages=4,ctas_per_sm=2,q_buffers=1,schedule=3,overlap="
      "1"};
  for (std::size_t i = 0; i < cases().size() * 2; ++i) {
    GuardedCall call = call_of(problem_of(i, i % 2 == 0 ? 64 : 128), i);
    INFO(cases()[i % cases().size()].name);
    expect_contract_with(call, configs[i % configs.size()]);
  }
}

TEST_CASE("score texts: wide heads, 8-bit keys with factors, and packed sequences") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (std::size_t i = 0; i < cases().size(); ++i) {
    AttentionProblem p = problem_of(i);
    if (i % 3 == 0) p.head_dim = 264;
    if (i % 3 == 1) p.kv_type = KvType::e4m3, p.seqlen_q = 9;
    if (i % 3 == 2) p.max_logits = true;
    INFO(cases()[i].name);
    GuardedCall call = call_of(p, i);
    call.upload();
    run_and_expect_contract(context, call);
  }
}

TEST_CASE("score texts: gradients of every text") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (std::size_t i = 0; i < cases().size() * 2; ++i) {
    AttentionProblem p = problem_of(i, i % 4 == 0 ? 128 : 64);
    if (i % 5 == 1) p.softcap = true;
    if (i % 5 == 3) p.alibi = true;
    INFO(cases()[i % cases().size()].name);
    GuardedBackward call(p);
    call.forward.functions = cases()[i % cases().size()].functions;
    if (i % 2 == 1) call.give_d_lse();
    if (i >= cases().size()) call.determinism = Determinism::bitwise;
    call.upload();
    context.attention_backward(call.forward.problem, call.args());
    CHECK(call.complaints() == "");
  }
}

TEST_CASE("score texts: a number that this process has not made is an error before anything runs") {
  AttentionProblem p = grouped_problem(DType::f16, MaskKind::none, 64, 16, 16);
  p.score_text = 12345;
  const std::vector<Violation> found = violations_of(p);
  REQUIRE(found.size() == 1);
  CHECK(to_string(found[0]) ==
        "score_text = 12345, must be 0, or what make_score_text() has returned in this process");
}
