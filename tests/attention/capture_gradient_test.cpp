// Gradients of tensors that texts of scores capture, against sums of hand-written derivatives in float64.
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/backward.h>
#include <fa2/errors.h>
#include <fa2/score_text.h>
#include <runtime/device.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../support/capture_gradients.h"
#include "../support/varlen.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr std::int64_t kBatch = 2, kHeads = 4, kLongest = 90;

double wave(std::int64_t i) {
  return 0.04 * static_cast<double>(i * 29 % 47) - 0.9;
}
double cap_of(std::int64_t) {
  return 1.5;
}
double gain_of(std::int64_t i) {
  return 0.5 + 0.25 * static_cast<double>(i % 5);
}

double distance(const At& at) {
  return static_cast<double>(std::abs(at.query - at.key));
}

CaptureCase slopes() {
  const CapturedTensor a{CaptureType::f32, {kHeads}, gain_of};
  return {
      .name = "a slope per head",
      .bias = "const float slope = a(at.head); return -slope * (0.02f * abs(at.query - at.key));",
      .tensors = {a},
      .functions = {.mod = [a](double s, const At& at) { return s - a.at(at.head) * 0.02 * distance(at); }},
      .derivatives = [](double, const At& at, const Take& take) { take(0, at.head, -0.02 * distance(at)); }};
}

CaptureCase relative() {
  const auto element = [](const At& at) {
    return at.head * 61 + 30 + std::clamp<std::int64_t>(at.key - at.query, -30, 30);
  };
  const CapturedTensor a{CaptureType::bf16, {kHeads, 61}, wave}, b{CaptureType::f16, {3}, gain_of, false};
  return {
      .name = "a table of relative positions, times a tensor without a gradient",
      .bias = "return a(at.head, 30 + max(min(at.key - at.query, 30), -30)) * b(at.key % 3);",
      .tensors = {a, b},
      .functions = {.mod = [=](double s, const At& at) { return s + a.at(element(at)) * b.at(at.key % 3); }},
      .derivatives = [=](double, const At& at, const Take& take) { take(0, element(at), b.at(at.key % 3)); }};
}

CaptureCase biases() {
  const auto one = [](const At& at) { return (at.head * kLongest + at.query) * kLongest + at.key; };
  const auto all = [=](const At& at) { return at.batch * kHeads * kLongest * kLongest + one(at); };
  const CapturedTensor a{CaptureType::f32, {1, kHeads, kLongest, kLongest}, wave},
      b{CaptureType::f16, {kBatch, kHeads, kLongest, kLongest}, wave};
  return {
      .name = "biases for all sequences and for each",
      .bias = "return a(0, at.head, at.query, at.key) + 0.5f * b(at.batch, at.head, at.query, at.key);",
      .tensors = {a, b},
      .functions = {.mod = [=](double s, const At& at) { return s + a.at(one(at)) + 0.5 * b.at(all(at)); }},
      .derivatives = [=](double, const At& at, const Take& take) {
        take(0, one(at), 1);
        take(1, all(at), 0.5);
      }};
}

CaptureCase cap() {
  const CapturedTensor a{CaptureType::f32, {}, cap_of};
  const auto tanh_of = [a](double s) { return std::tanh(s / a.at(0)); };
  return {.name = "a cap without dimensions",
          .mod = "const auto cap = a(); return cap * tanh(score / cap);",
          .tensors = {a},
          .functions = {.mod = [=](double s, const At&) { return a.at(0) * tanh_of(s); },
                        .slope = [=](double s, const At&) { return 1 - tanh_of(s) * tanh_of(s); }},
          .derivatives = [=](double s, const At&, const Take& take) {
            const double t = tanh_of(s);
            take(0, 0, t - s / a.at(0) * (1 - t * t));
          }};
}

CaptureCase several_reads() {
  const CapturedTensor a{CaptureType::f32, {7}, gain_of}, b{CaptureType::bf16, {kLongest}, gain_of};
  return {
      .name = "one capture read by several places, in a loop and under conditions",
      .bias = "float sum = 0; for (int i = 0; i < 3; ++i) sum += 0.25f * a((at.key + i) % 7); return sum;",
      .mod =
          "if (at.key % 2 == 0) return score * b(at.query) + a(at.head);\n"
          "return score * int(b(at.query) + 1.0f);",
      .mask = "return at.key % 5 != 3;",
      .tensors = {a, b},
      .functions = {.mod =
                        [=](double s, const At& at) {
                          for (std::int64_t i = 0; i < 3; ++i) s += 0.25 * a.at((at.key + i) % 7);
                          const double gain = b.at(at.query);
                          return at.key % 2 == 0 ? s * gain + a.at(at.head) : s * std::trunc(gain + 1);
                        },
                    .slope =
                        [=](double, const At& at) {
                          const double gain = b.at(at.query);
                          return at.key % 2 == 0 ? gain : std::trunc(gain + 1);
                        },
                    .mask = [](const At& at) { return at.key % 5 != 3; }},
      .derivatives = [=](double s, const At& at, const Take& take) {
        const double gain = at.key % 2 == 0 ? b.at(at.query) : std::trunc(b.at(at.query) + 1);
        for (std::int64_t i = 0; i < 3; ++i) {
          s += 0.25 * a.at((at.key + i) % 7);
          take(0, (at.key + i) % 7, 0.25 * gain);
        }
        if (at.key % 2 == 1) return;
        take(0, at.head, 1);
        take(1, at.query, s);
      }};
}

CaptureCase large_and_small() {
  const CapturedTensor a{CaptureType::f32, {2}, gain_of};
  const auto factor = [](const At& at) { return at.key % 2 == 0 ? 1e-12 : 1; };
  return {.name = "elements with parts of unlike magnitudes",
          .bias = "return at.key % 2 == 0 ? 1e-12f * a(0) : a(1);",
          .tensors = {a},
          .functions = {.mod = [=](double s, const At& at) { return s + factor(at) * a.at(at.key % 2); }},
          .derivatives = [=](double, const At& at, const Take& take) { take(0, at.key % 2, factor(at)); }};
}

std::vector<CaptureCase> cases() {
  return {slopes(), relative(), biases(), cap(), several_reads()};
}

AttentionProblem problem_of(const CaptureCase& of, DType dtype, MaskKind mask) {
  AttentionProblem p = grouped_problem(dtype, mask, 64, 83, kLongest);
  ScoreTexts texts{.bias = of.bias, .mod = of.mod, .mask = of.mask};
  const char* const names[] = {"a", "b"};
  for (const CapturedTensor& tensor : of.tensors)
    texts.captures.push_back(
        {names[texts.captures.size()], tensor.type, static_cast<int>(tensor.sizes.size())});
  p.score_text = make_score_text(texts);
  return p;
}

void exchange_halves(std::vector<float>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::swap_ranges(values.begin(), middle, middle);
}

struct Gpu {
  const ScopedContext current{device_under_test()};
  Context context{untuned()};
};

}  // namespace

TEST_CASE("capture gradients: those of every kind of function") {
  if (cannot_run()) return;
  Gpu gpu;
  std::size_t i = 0;
  for (const CaptureCase& of : cases()) {
    const DType dtype = i % 2 == 0 ? DType::f16 : DType::bf16;
    const MaskKind mask = i++ % 3 == 0 ? MaskKind::causal_bottom_right : MaskKind::none;
    GuardedBackward call(problem_of(of, dtype, mask));
    if (i % 2 == 0) call.give_d_lse();
    expect_gradients(gpu.context, of, call);
  }
}

TEST_CASE("capture gradients: beside softcap, ALiBi, sinks, windows and dropout") {
  if (cannot_run()) return;
  Gpu gpu;
  for (const CaptureCase& of : {slopes(), cap()}) {
    AttentionProblem p = problem_of(of, DType::f16, MaskKind::causal_bottom_right);
    p.softcap = p.alibi = p.sinks = p.dropout = true;
    p.window_left = 40;
    GuardedBackward call(p);
    call.forward.args.softcap = 1.5f;
    call.forward.args.dropout.probability = 0.3f;
    call.wanted = {.dq = false, .dk = false, .dv = true};
    expect_gradients(gpu.context, of, call);
  }
}

TEST_CASE("capture gradients: bitwise, the entries of a batch add up to the same bits in any order") {
  if (cannot_run()) return;
  Gpu gpu;
  for (const CaptureCase& of : {slopes(), relative(), cap(), several_reads()}) {
    INFO(std::string(of.name));
    GuardedBackward call(problem_of(of, DType::bf16, MaskKind::causal_bottom_right));
    call.determinism = Determinism::bitwise;
    call.give_d_lse();
    expect_gradients(gpu.context, of, call);
    std::vector<std::vector<float>> sums[2];
    for (std::vector<std::vector<float>>& found : sums) {
      found = gradients_by(by(gpu.context, call), of, call);
      for (std::vector<float>* const values :
           {&call.forward.q.values, &call.forward.k.values, &call.forward.v.values, &call.d_out.values})
        exchange_halves(*values);
      exchange_halves(call.d_lse);
    }
    CHECK(sums[0] == sums[1]);
  }
}

TEST_CASE("capture gradients: bitwise, each element has a unit of its own") {
  if (cannot_run()) return;
  Gpu gpu;
  const CaptureCase of = large_and_small();
  std::vector<float> sums[2];
  GuardedBackward call(problem_of(of, DType::f16, MaskKind::none));
  for (const Determinism determinism : {Determinism::fastest, Determinism::bitwise}) {
    call.determinism = determinism;
    sums[determinism == Determinism::bitwise] = gradients_by(by(gpu.context, call), of, call).front();
  }
  for (std::size_t i = 0; i < sums[0].size(); ++i) {
    CHECK(sums[0][i] != 0);
    CHECK(double{sums[1][i]} / double{sums[0][i]} == doctest::Approx(1).epsilon(1e-4));
  }
}

TEST_CASE("capture gradients: a plan of them alone needs delta and one kernel") {
  if (cannot_run()) return;
  Gpu gpu;
  const CaptureCase of = several_reads();
  GuardedBackward call(problem_of(of, DType::f16, MaskKind::none));
  call.wanted = {.dq = false, .dk = false, .dv = false};
  const BackwardPlan plan = gpu.context.backward_plan(
      call.forward.problem, device_under_test(), {.dq = false, .dk = false, .dv = false, .d_captures = true});
  REQUIRE(plan.explain().kernels.size() == 2);
  CHECK(plan.explain().kernels[0].config.kernel == KernelId::backward_delta);
  CHECK(plan.explain().kernels[1].config.kernel == KernelId::backward_captures);
  const DeviceBuffer workspace(plan.workspace_bytes());
  const auto run = [&](BackwardArgs args) {
    args.workspace = workspace.data();
    plan.run(args);
  };
  for (int i = 0; i < 2; ++i) expect_gradients_of(run, of, call);
}

TEST_CASE("capture gradients: of sequences with their own lengths") {
  if (cannot_run()) return;
  Gpu gpu;
  for (const CaptureCase& of : {slopes(), relative()}) {
    AttentionProblem p = problem_of(of, DType::bf16, MaskKind::causal_bottom_right);
    AttentionProblem plain{
        .dtype = p.dtype, .head_dim = 64, .mask = p.mask, .heads_q = kHeads, .heads_kv = 2};
    plain.score_text = p.score_text;
    for (const Packing packing : {Packing::packed, Packing::batched}) {
      GuardedBackward call = backward_of(plain, length_mixes()[1], packing, guarded_bshd);
      expect_gradients(gpu.context, of, call);
    }
  }
}

TEST_CASE("capture gradients: without keys or queries they are 0") {
  if (cannot_run()) return;
  Gpu gpu;
  const CaptureCase of = slopes();
  for (const auto& [queries, keys] : {std::pair{0, 5}, {5, 0}}) {
    AttentionProblem p = problem_of(of, DType::f16, MaskKind::none);
    p.seqlen_q = queries, p.seqlen_k = keys;
    GuardedBackward call(p);
    CapturesWithGradients captures(of.tensors);
    captures.give_to(call.forward.args);
    BackwardArgs args = call.args();
    args.d_captures = captures.pointers();
    gpu.context.attention_backward(p, args);
    CHECK(captures.gradient(0) == std::vector<float>(kHeads));
  }
}

TEST_CASE("capture gradients: NaN of dO reaches the gradients that its query contributes to, and no others") {
  if (cannot_run()) return;
  Gpu gpu;
  const CaptureCase of = slopes();
  GuardedBackward call(problem_of(of, DType::f16, MaskKind::none));
  for (std::int64_t d = 0; d < 64; ++d) call.d_out.at(1, 2, 17, d) = std::nanf("");
  for (const Determinism determinism : {Determinism::fastest, Determinism::bitwise}) {
    call.determinism = determinism;
    const std::vector<float> made = gradients_by(by(gpu.context, call), of, call).front();
    for (std::size_t head = 0; head < kHeads; ++head) CHECK(std::isnan(made[head]) == (head == 2));
  }
}

TEST_CASE("capture gradients: what does not fit is an error that lists all") {
  if (cannot_run()) return;
  Gpu gpu;
  AttentionProblem p = grouped_problem(DType::f16, MaskKind::none, 64, 40, 50);
  p.score_text = make_score_text({.bias = "return a(at.key) + b() + c(at.head) + e(at.key);",
                                  .mask = "return d(at.key) > 0.0f;",
                                  .captures = {{"a", CaptureType::f32, 1},
                                               {"b"},
                                               {"c", CaptureType::i32, 1},
                                               {"d", CaptureType::f16, 1},
                                               {"e", CaptureType::bf16, 1}}});
  GuardedBackward call(p);
  Captures captures;
  captures.add(std::vector<float>(50), {50});
  captures.add(1.5);
  captures.add(std::vector<std::int32_t>(4), {4});
  captures.add(std::vector<std::uint16_t>(50), {50});
  captures.add(std::vector<std::uint16_t>(50), {50});
  captures.give_to(call.forward.args);
  call.upload();
  const DeviceBuffer memory(4 * 100);
  auto* const floats = static_cast<float*>(memory.data());
  std::vector<float*> gradients(5);
  BackwardArgs args = call.args();
  const auto errors = [&] {
    try {
      gpu.context.attention_backward(p, args);
    } catch (const InvalidRequest& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto says = [](const std::string& all, const char* part) {
    return all.find(part) != std::string::npos;
  };
  CHECK(errors() == "");
  args.d_captures = gradients.data();
  CHECK(says(errors(), "d_captures = only null, must hold a gradient, or be null: none is asked for"));
  gradients = {reinterpret_cast<float*>(reinterpret_cast<char*>(floats) + 2), floats, floats, floats,
               static_cast<float*>(args.dq)};
  const std::string found = errors();
  CHECK(says(found, "must be a multiple of 4 bytes, one float"));
  for (const char* const name : {"d_captures.b", "d_captures.c", "d_captures.d"})
    CHECK(says(found, (std::string(name) + " = given, must be null: captures have gradients").c_str()));
  CHECK(says(found, "d_captures.e = "));
  CHECK(says(found, "must not overlap dq"));
  gradients = {floats, nullptr, nullptr, nullptr, floats + 49};
  CHECK(says(errors(), "must not overlap d_captures.a"));
  gradients = {floats, nullptr, nullptr, nullptr,
               static_cast<float*>(const_cast<void*>(call.forward.args.captures[0].data))};
  CHECK(says(errors(), "must not overlap captures.a"));
  gradients = {floats, nullptr, nullptr, nullptr, floats + 50};
  CHECK(errors() == "");
  p.score_text = make_score_text({.mask = "return at.key > 3;"});
  args.forward.captures = nullptr, args.forward.capture_count = 0;
  CHECK(says(errors(), "d_captures = true, must be false, or score_text have such a capture: "));
  CHECK_THROWS_WITH_AS(gpu.context.backward_plan(p, device_under_test(), {.d_captures = true}),
                       doctest::Contains("score_text have such a capture"), InvalidRequest);
}
