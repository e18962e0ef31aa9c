// Captures with an element per score, of which kernels on wgmma have tiles in shared memory and others read each element.
#include <core/float_bits.h>
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/errors.h>
#include <fa2/score_text.h>
#include <generator/head_packing.h>
#include <runtime/device.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "../support/capture_gradients.h"
#include "../support/captures.h"
#include "../support/gpu_backward.h"
#include "../support/mma_configs.h"

using namespace fa2;
using namespace fa2::test;

namespace {

/// Rows of a bias end 3 keys before a multiple of 16 bytes.
constexpr std::int64_t kBatch = 2, kHeads = 4, kQueries = 200, kKeys = 197, kPitch = 200;

/// A bias, and which entries and heads have one of their own.
struct Bias {
  CaptureType type;
  bool of_batch, of_head;

  std::int64_t entries() const { return of_batch ? kBatch : 1; }
  std::int64_t heads() const { return of_head ? kHeads : 1; }
  /// An eighth of a small integer.
  double at(std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t key) const {
    const std::int64_t number =
        query * 7 + key * 13 + (of_head ? head * 31 : 0) + (of_batch ? batch * 57 : 0);
    return static_cast<double>(number % 33 - 16) / 8;
  }
  double at(const At& score) const { return at(score.batch, score.head, score.query, score.key); }
};

std::string name_of(const Bias& bias) {
  return std::to_string(static_cast<int>(bias.type)) + (bias.of_batch ? ", a batch entry" : "") +
         (bias.of_head ? ", a head" : "");
}

template <class Value, class Of>
void add_values(Captures& captures, const Bias& bias, Value behind, const Of& of) {
  std::vector<Value> values;
  for (std::int64_t b = 0; b < bias.entries(); ++b)
    for (std::int64_t h = 0; h < bias.heads(); ++h)
      for (std::int64_t q = 0; q < kQueries; ++q)
        for (std::int64_t k = 0; k < kPitch; ++k)
          values.push_back(k < kKeys ? of(bias.at(b, h, q, k)) : behind);
  captures.add(values, {bias.entries(), bias.heads(), kQueries, kPitch});
}

/// Adds a bias whose rows are longer than the keys. What lies behind these is not a number.
void add_bias(Captures& captures, const Bias& bias, std::size_t i) {
  if (bias.type == CaptureType::f32) {
    add_values(captures, bias, std::numeric_limits<float>::quiet_NaN(),
               [](double value) { return static_cast<float>(value); });
  } else {
    const DType dtype = bias.type == CaptureType::f16 ? DType::f16 : DType::bf16;
    add_values(captures, bias, std::uint16_t{0x7fff},
               [=](double value) { return to_bits(static_cast<float>(value), dtype); });
  }
  captures[i].sizes[3] = kKeys;
}

constexpr Bias kBiases[] = {{CaptureType::bf16, false, true},
                            {CaptureType::f16, true, true},
                            {CaptureType::f32, true, false},
                            {CaptureType::bf16, false, false}};

/// A call of a bias, whose texts are `texts` with the capture `pair`.
struct Biased {
  Captures captures;
  ScoreTexts texts;
  reference::ScoreFunctions functions;

  explicit Biased(const Bias& bias) {
    add_bias(captures, bias, 0);
    texts.bias = "return pair(at);";
    texts.captures = {{"pair", bias.type, CaptureSpec::kPerScore}};
    functions.mod = [bias](double s, const At& at) { return s + bias.at(at); };
  }
};

AttentionProblem problem_of(const ScoreTexts& texts, DType dtype, MaskKind mask, std::int32_t head_dim) {
  AttentionProblem p = grouped_problem(dtype, mask, head_dim, kQueries, kKeys);
  p.score_text = make_score_text(texts);
  return p;
}

void expect_forward(const Biased& biased, const AttentionProblem& problem, const std::string& config) {
  GuardedCall call(problem);
  call.functions = biased.functions;
  biased.captures.give_to(call.args);
  call.upload();
  ContextOptions options = untuned();
  options.config = parse_config(config);
  Context context(options);
  INFO(config);
  run_and_expect_contract(context, call);
}

constexpr const char* kForwards[] = {
    "tile_m=128,tile_n=64,warps=8,stages=3,q_buffers=1,schedule=2,overlap=1,speculative_max=1",
    "tile_m=64,tile_n=128,warps=4,stages=2,ctas_per_sm=2,q_buffers=1,schedule=2,overlap=1,speculative_max=1",
    "tile_m=192,tile_n=80,warps=12,stages=2,q_buffers=1,schedule=2,overlap=1,pingpong=1,speculative_max=1",
    "tile_m=128,tile_n=48,warps=8,stages=3,q_buffers=2,schedule=1,speculative_max=1",
    "tile_m=128,tile_n=32,warps=8,stages=8,q_buffers=1,schedule=0,overlap=1"};

struct Backward {
  std::int32_t head_dim, stages;
  const char* config;
};
constexpr Backward kBackwards[] = {{64, 2, "tile_m=128,tile_n=64,warps=8,stages=2,pingpong=2,bulk_sums=1"},
                                   {64, 1, "tile_m=64,tile_n=128,warps=8,stages=1"},
                                   {128, 2, "tile_m=64,tile_n=96,warps=8,stages=2"},
                                   {128, 2, "tile_m=64,tile_n=64,warps=8,stages=2"},
                                   {72, 2, "tile_m=64,tile_n=96,warps=8,stages=2"}};

std::string forward(std::size_t i) {
  return std::string("kernel=forward_sm90,score_tiles=1,") + kForwards[i];
}

/// A bias whose gradient is wanted, of sequences of 96 keys.
CaptureCase bias_with_gradient(const Bias& bias) {
  const auto element = [bias](const At& at) {
    const std::int64_t batch = bias.of_batch ? at.batch : 0, head = bias.of_head ? at.head : 0;
    return ((batch * bias.heads() + head) * kQueries + at.query) * 96 + at.key;
  };
  const auto value = [](std::int64_t i) { return static_cast<double>(i * 7 % 33 - 16) / 16; };
  const CapturedTensor a{bias.type, {bias.entries(), bias.heads(), kQueries, 96}, value};
  return {.name = "a bias per score",
          .bias = "return a(at);  // and nothing else",
          .tensors = {a},
          .functions = {.mod = [=](double s, const At& at) { return s + a.at(element(at)); }},
          .derivatives = [=](double, const At& at, const Take& take) { take(0, element(at), 1); }};
}

AttentionProblem problem_of(const CaptureCase& of, MaskKind mask, std::int32_t head_dim) {
  return problem_of({.bias = of.bias,
                     .mod = of.mod,
                     .mask = of.mask,
                     .captures = {{"a", of.tensors[0].type, CaptureSpec::kPerScore}}},
                    DType::bf16, mask, head_dim);
}

/// Computes the gradient by a backward_sm90 with tiles; returns the kernels that run.
std::size_t expect_bias_gradient(const CaptureCase& of, AttentionProblem p, const char* config) {
  p.seqlen_k = 96;
  GuardedBackward call(p);
  ContextOptions options = untuned();
  options.config = parse_config(std::string("kernel=backward_sm90,score_tiles=1,") + config);
  Context context(options);
  INFO(config);
  expect_gradients(context, of, call);
  return context.backward_plan(p, device_under_test(), {.d_captures = true}).explain().kernels.size();
}

}  // namespace

TEST_CASE("score tiles: a bias of every type and shape with forward_sm90") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left};
  constexpr std::int32_t kDims[] = {64, 40, 128, 72};
  for (std::size_t i = 0; i < std::size(kForwards); ++i) {
    for (std::size_t b = 0; b < std::size(kBiases); ++b) {
      if (i > 1 && b % 2 == i % 2) continue;
      if (kBiases[b].type == CaptureType::f32 && (i == 1 || i == 2)) continue;  // tiles that do not fit
      INFO(name_of(kBiases[b]));
      const Biased biased(kBiases[b]);
      const DType dtype = b % 2 == 0 ? DType::bf16 : DType::f16;
      expect_forward(biased, problem_of(biased.texts, dtype, kMasks[(i + b) % 3], kDims[(i + b) % 4]),
                     forward(i));
    }
  }
}

TEST_CASE("score tiles: beside other texts, captures and variants") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  const Bias second{CaptureType::f16, true, false};
  Biased biased(kBiases[0]);
  add_bias(biased.captures, second, 1);
  biased.captures.add(0.5);
  biased.texts.bias = "return gain() * pair(at) + other(at);";
  biased.texts.mod = "return pair(at) > 0.0f ? score * 0.5f : score;";
  biased.texts.mask = "return (at.key + at.query) % 7 != 3;";
  biased.texts.captures.push_back({"other", second.type, CaptureSpec::kPerScore});
  biased.texts.captures.push_back({"gain"});
  biased.functions.mod = [=](double s, const At& at) {
    const double pair = kBiases[0].at(at), sum = s + 0.5 * pair + second.at(at);
    return pair > 0 ? sum * 0.5 : sum;
  };
  biased.functions.mask = [](const At& at) { return (at.key + at.query) % 7 != 3; };
  AttentionProblem p = problem_of(biased.texts, DType::bf16, MaskKind::causal_bottom_right, 64);
  p.window_left = 90;
  expect_forward(biased, p, forward(0) + ",key_map=1");
  expect_forward(biased, p, forward(3));
}

TEST_CASE("score tiles: gradients of Q, K and V with backward_sm90") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left};
  for (std::size_t i = 0; i < std::size(kBackwards); ++i) {
    for (std::size_t b = i % 2; b < std::size(kBiases); b += 2) {
      if (kBiases[b].type == CaptureType::f32 && kBackwards[i].stages > 1) continue;  // tiles that do not fit
      const Biased biased(kBiases[b]);
      AttentionProblem p = problem_of(biased.texts, DType::bf16, kMasks[(i + b) % 3], kBackwards[i].head_dim);
      GuardedBackward call(p);
      call.forward.functions = biased.functions;
      biased.captures.give_to(call.forward.args);
      call.upload();
      ContextOptions options = untuned();
      options.config =
          parse_config(std::string("kernel=backward_sm90,score_tiles=1,") + kBackwards[i].config);
      Context context(options);
      context.attention_backward(p, call.args());
      INFO(name_of(kBiases[b]));
      INFO(kBackwards[i].config);
      CHECK(call.complaints() == "");
    }
  }
}

TEST_CASE("score tiles: the gradient of a bias by the kernel of the other gradients") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  for (std::size_t i = 0; i < std::size(kBackwards); ++i) {
    CaptureCase of = bias_with_gradient(kBiases[(i + 1) % std::size(kBiases)]);
    const MaskKind mask = i % 2 == 0 ? MaskKind::none : MaskKind::causal_bottom_right;
    if (i == 3)
      of.mask = "return at.key % 5 != 3;", of.functions.mask = [](const At& at) { return at.key % 5 != 3; };
    if (i > 2) of.guard = 17;  // not where TMA writes
    CHECK(expect_bias_gradient(of, problem_of(of, mask, kBackwards[i].head_dim), kBackwards[i].config) == 3);
  }
}

TEST_CASE("score tiles: other gradients of a capture per score have a kernel of their own") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  CaptureCase of = bias_with_gradient(kBiases[0]);
  of.bias = "return 0.5f * a(at);";
  of.functions.mod = [mod = of.functions.mod](double s, const At& at) { return s + 0.5 * (mod(0, at)); };
  of.derivatives = [all = of.derivatives](double s, const At& at, const Take& take) {
    all(s, at, [&](std::size_t capture, std::int64_t element, double slope) {
      take(capture, element, 0.5 * slope);
    });
  };
  CHECK(expect_bias_gradient(of, problem_of(of, MaskKind::none, 64), kBackwards[0].config) == 4);
}

TEST_CASE("score tiles: other kernels read each element") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (std::size_t i = 0; i < kMmaConfigs.size(); i += 2) {
    const Biased biased(kBiases[i / 2 % std::size(kBiases)]);
    expect_forward(biased, problem_of(biased.texts, DType::f16, MaskKind::none, 64), kMmaConfigs[i]);
  }
}

TEST_CASE("score tiles: the heuristic takes them where they fit, and packs no heads") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Biased biased(kBiases[0]);
  AttentionProblem p = problem_of(biased.texts, DType::bf16, MaskKind::none, 128);
  p.batch = 4, p.heads_q = p.heads_kv = 16, p.seqlen_q = p.seqlen_k = 4096;
  p.heads_kv = 2;
  Context context(untuned());
  const KernelConfig config = context.explain(p, "sm_90a").kernels[0].config;
  CHECK(config.kernel == KernelId::forward_sm90);
  CHECK(config.score_tiles == 1);
  CHECK(head_packing(p, config).heads == 1);
  for (const KernelReport& kernel : context.explain_backward(p, "sm_90a", {}).kernels)
    if (kernel.config.kernel == KernelId::backward_sm90) CHECK(kernel.config.score_tiles == 1);
}

TEST_CASE("score tiles: what TMA cannot read is an error that lists all") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Biased biased(kBiases[0]);
  GuardedCall call(problem_of(biased.texts, DType::bf16, MaskKind::none, 64));
  ScoreCapture& pair = biased.captures[0];
  pair.sizes[0] = 3, pair.sizes[3] = 1;
  pair.strides[0] = 12, pair.strides[2] = 0;
  pair.data = static_cast<const std::byte*>(pair.data) + 2;
  biased.captures.give_to(call.args);
  call.upload();
  Context context(untuned());
  try {
    context.attention(call.problem, call.args);
    FAIL("it was taken");
  } catch (const InvalidRequest& refused) {
    const std::string message = refused.what();
    for (const char* const part :
         {"captures.pair.sizes[0] = 3, must be batch = 2 or 1",
          "captures.pair.sizes[3] = 1, must be seqlen_k = 197",
          "captures.pair.strides[0] = 12, must be a multiple of 8",
          "captures.pair.strides[2] = 0, must be a positive", "must be a multiple of 16 bytes"}) {
      CAPTURE(message);
      CHECK(message.find(part) != std::string::npos);
    }
  }
}

TEST_CASE("score tiles: a read of another position is refused, as is an `at` of the text's own") {
  for (const char* const text :
       {"return pair(at.batch, at.head, at.query, at.key);", "auto other = at; return pair(other);",
        "const Position at{}; return pair(at);", "return [&](auto at) { return pair(at); }(at);",
        "return pair(at) + (&pair == nullptr);"}) {
    CAPTURE(std::string(text));
    CHECK_THROWS_AS(
        make_score_text({.bias = text, .captures = {{"pair", CaptureType::f32, CaptureSpec::kPerScore}}}),
        InvalidRequest);
  }
  CHECK_THROWS_AS(make_score_text({.mod = "return score * score;",
                                   .mod_slope = "auto other = at; return 2.0f * score + 0.0f * pair(other);",
                                   .captures = {{"pair", CaptureType::f32, CaptureSpec::kPerScore}}}),
                  InvalidRequest);
  CHECK(make_score_text({.bias = "return at.key > 3 ? 2.0f * pair ( at ) /* at */ : 0.0f;",
                         .captures = {{"pair", CaptureType::f32, CaptureSpec::kPerScore}}}) != 0);
}
