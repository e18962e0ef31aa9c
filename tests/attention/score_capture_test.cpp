// Tensors and numbers that texts of scores capture, forward and backward, against the same functions in float64.
#include <core/float_bits.h>
#include <doctest/doctest.h>
#include <fa2/attention.h>
#include <fa2/errors.h>
#include <fa2/score_text.h>
#include <operation/rules/validate.h>
#include <runtime/device.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <list>
#include <string>
#include <vector>

#include "../support/captures.h"
#include "../support/gpu_backward.h"
#include "../support/mma_configs.h"

using namespace fa2;
using namespace fa2::test;

namespace {

using At = reference::ScorePosition;

constexpr std::int64_t kBatch = 2, kHeads = 4, kQueries = 131, kKeys = 197, kLongest = 200;

template <class Value, class Of>
std::vector<Value> values_of(std::int64_t count, const Of& of) {
  std::vector<Value> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<Value>(of(i)));
  return values;
}

/// A float16 or bfloat16 that is an eighth of a small integer.
std::uint16_t eighths(std::int64_t n, DType dtype) {
  return to_bits(static_cast<float>(n) / 8, dtype);
}

struct Case {
  std::string name;
  ScoreTexts texts;
  reference::ScoreFunctions functions;
  Captures captures;
};

double relative(std::int64_t head, std::int64_t distance) {
  return 0.01 * static_cast<double>((distance * 7 + head * 31) % 101) - 0.5;
}
std::int64_t document(std::int64_t batch, std::int64_t key) {
  return (key + 11 * batch) / 40;
}

/// A table of relative positions per head in float32, and slopes in float16 whose stride is 2.
void add_table(std::list<Case>& all) {
  Case& made = all.emplace_back();
  made.name = "relative table, slopes per head and a number";
  made.texts = {
      .bias =
          "const int distance = max(min(at.key - at.query, 150), -150);\n"
          "return gain() * table(at.head, distance + 150) - slopes(at.head) * abs(distance) * 0.02f;",
      .captures = {{"table", CaptureType::f32, 2}, {"slopes", CaptureType::f16, 1}, {"gain"}}};
  const auto table = [](std::int64_t i) { return relative(i / 301, i % 301); };
  made.captures.add(values_of<float>(kHeads * 301, table), {kHeads, 301});
  made.captures.add(values_of<std::uint16_t>(2 * kHeads, [](auto i) { return eighths(i, DType::f16); }),
                    {kHeads});
  made.captures[1].strides[0] = 2;
  made.captures.add(0.75);
  made.functions.mod = [](double s, const At& at) {
    const std::int64_t distance = std::clamp<std::int64_t>(at.key - at.query, -150, 150);
    return s + 0.75 * relative(at.head, distance + 150) -
           0.25 * static_cast<double>(at.head) * static_cast<double>(std::abs(distance)) * 0.02;
  };
}

/// Documents in int64 with the first row of a wider tensor, and flags per key in bytes.
void add_documents(std::list<Case>& all) {
  Case& made = all.emplace_back();
  made.name = "documents, and keys that are left out";
  made.texts = {
      .mask =
          "return ids(at.batch, at.query) == ids(at.batch, at.key) && !left_out(at.key)\n"
          "    && at.key >= first();",
      .captures = {
          {"ids", CaptureType::i64, 2}, {"left_out", CaptureType::boolean, 1}, {"first", CaptureType::i32}}};
  const auto id = [](std::int64_t i) {
    return document(i / kLongest, i % kLongest) + (std::int64_t{1} << 40);
  };
  made.captures.add(values_of<std::int64_t>(kBatch * kLongest, id), {kBatch, kLongest});
  made.captures.add(values_of<std::uint8_t>(kLongest, [](auto i) { return i % 5 == 2 ? 255 : 0; }),
                    {kLongest});
  made.captures.add(3);
  made.functions.mask = [](const At& at) {
    return document(at.batch, at.query) == document(at.batch, at.key) && at.key % 5 != 2 && at.key >= 3;
  };
}

/// Every type and number of dimensions, one of them backwards.
void add_types(std::list<Case>& all) {
  Case& made = all.emplace_back();
  made.name = "gains and shifts of every type, one backwards";
  made.texts = {.mod =
                    "const float gain = pair(at.batch, at.head % 2, at.query % 3, at.key % 5);\n"
                    "if (is_on()) return score * gain + one() + small(at.key) - shift() * 0.5f;\n"
                    "return score;",
                .captures = {{"pair", CaptureType::bf16, 4},
                             {"one", CaptureType::i32, 0},
                             {"small", CaptureType::u8, 1},
                             {"shift", CaptureType::i64},
                             {"is_on", CaptureType::boolean}}};
  made.captures.add(values_of<std::uint16_t>(60, [](auto i) { return eighths(i % 17 - 8, DType::bf16); }),
                    {2, 2, 3, 5});
  made.captures.add(std::vector<std::int32_t>{1}, {});
  made.captures.add(values_of<std::uint8_t>(kLongest, [](auto i) { return i % 3; }), {kLongest});
  ScoreCapture& small = made.captures[2];
  small.data = static_cast<const std::uint8_t*>(small.data) + kLongest - 1, small.strides[0] = -1;
  made.captures.add(-2);
  made.captures.add(1);
  const auto gain = [](const At& at) {
    const std::int64_t i = ((at.batch * 2 + at.head % 2) * 3 + at.query % 3) * 5 + at.key % 5;
    return static_cast<double>(i % 17 - 8) / 8;
  };
  made.functions.mod = [gain](double s, const At& at) {
    return s * gain(at) + 2 + static_cast<double>((kLongest - 1 - at.key) % 3);
  };
  made.functions.slope = [gain](double, const At& at) { return gain(at); };
}

/// Returns the cases, with memory of the device under test.
std::list<Case> cases() {
  std::list<Case> all;
  add_table(all);
  add_documents(all);
  add_types(all);
  return all;
}

AttentionProblem problem_of(const Case& of, std::size_t i) {
  constexpr MaskKind kMasks[] = {MaskKind::none, MaskKind::causal_bottom_right, MaskKind::causal_top_left};
  AttentionProblem p =
      grouped_problem(i % 2 == 0 ? DType::f16 : DType::bf16, kMasks[i % 3], 64, kQueries, kKeys);
  p.score_text = make_score_text(of.texts);
  return p;
}

}  // namespace

TEST_CASE("score captures: tensors and numbers of every type keep the numerics contract on mma.sync") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  for (std::size_t i = 0; i < kMmaConfigs.size(); ++i) {
    for (const Case& of : cases()) {
      if ((i + of.name.size()) % 2 == 1) continue;  // half of the pairs, each config and each case often
      GuardedCall call(problem_of(of, i));
      call.functions = of.functions;
      of.captures.give_to(call.args);
      call.upload();
      ContextOptions options = untuned();
      options.config = parse_config(kMmaConfigs[i]);
      Context context(options);
      INFO(of.name);
      INFO(kMmaConfigs[i]);
      run_and_expect_contract(context, call);
    }
  }
}

TEST_CASE("score captures: tensors and numbers of every type keep the numerics contract with forward_sm90") {
  if (cannot_run_sm_90a()) return;
  const ScopedContext current(device_under_test());
  ContextOptions options = untuned();
  options.config = parse_config(
      "kernel=forward_sm90,tile_m=128,tile_n=64,warps=8,stages=3,q_buffers=1,schedule=2,overlap=1,"
      "speculative_max=1");
  Context context(options);
  std::size_t i = 0;
  for (const Case& of : cases()) {
    GuardedCall call(problem_of(of, i++));
    call.functions = of.functions;
    of.captures.give_to(call.args);
    call.upload();
    INFO(of.name);
    run_and_expect_contract(context, call);
  }
}

TEST_CASE("score captures: gradients") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  Context context(untuned());
  for (std::size_t i = 0; i < 4; ++i) {
    for (const Case& of : cases()) {
      GuardedBackward call(problem_of(of, i));
      call.forward.functions = of.functions;
      of.captures.give_to(call.forward.args);
      if (i % 2 == 1) call.determinism = Determinism::bitwise;
      call.upload();
      context.attention_backward(call.forward.problem, call.args());
      INFO(of.name);
      CHECK(call.complaints() == "");
    }
  }
}

TEST_CASE("score captures: an index outside is reported by the interpreter, and reads the tensor on a GPU") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem p = grouped_problem(DType::f16, MaskKind::none, 64, 40, 50);
  p.score_text = make_score_text({.bias = "return table(at.key - 1) + table(at.query + 2000000000);",
                                  .captures = {{"table", CaptureType::f32, 1}}});
  Captures captures;
  captures.add(std::vector<float>(50, 0.5f), {50});
  GuardedCall call(p);
  call.functions.mod = [](double s, const At&) { return s + 1; };
  captures.give_to(call.args);
  call.upload();
  Context context(untuned());
  if (device_under_test() != kInterpreterDevice) return run_and_expect_contract(context, call);
  try {
    context.attention(call.problem, call.args);
    FAIL("an index outside was not reported");
  } catch (const Error& error) {
    const std::string message = error.what();
    CHECK(message.find("of a text of scores, must be in 0..49") != std::string::npos);
    CHECK(message.find("capture table") != std::string::npos);
  }
}

TEST_CASE("score captures: a call that does not fit its texts is an error that lists all") {
  if (cannot_run()) return;
  const ScopedContext current(device_under_test());
  AttentionProblem p = grouped_problem(DType::f16, MaskKind::none, 64, 40, 50);
  p.score_text = make_score_text(
      {.bias = "return a(at.key, 0) + b() + c() + d(at.head);",
       .captures = {
           {"a", CaptureType::f32, 2}, {"b"}, {"c", CaptureType::i32}, {"d", CaptureType::bf16, 1}}});
  GuardedCall call(p);
  call.upload();
  const auto rules = [&] {
    std::string text;
    for (const Violation& v : violations_of(PlannedProblem(call.problem, {}), call.args))
      text += to_string(v) + "\n";
    return text;
  };
  CHECK(rules() == "capture_count = 0, must be 4: score_text has so many captures\n");
  call.args.capture_count = 4;
  CHECK(rules() == "captures = null, must point to capture_count captures\n");
  Captures captures;
  captures.add(std::vector<float>(50), {50, 1});
  captures.add(1.5);
  captures.add(1.5);
  captures.add(std::vector<std::uint16_t>(8), {4});
  captures[0].sizes[2] = 3;
  captures[1].data = captures[0].data;
  captures[3].sizes[0] = 0;
  captures[3].data = static_cast<const char*>(captures[3].data) + 1;
  captures.give_to(call.args);
  const std::string found = rules();
  CHECK(found.find("captures.a.sizes[2] = 3, must be 0: the texts capture 2 dimensions") != found.npos);
  CHECK(found.find("captures.b.data = given, must be null: the texts capture a number") != found.npos);
  CHECK(found.find("captures.c.number = 1.5, must be an integer of 32 bits") != found.npos);
  CHECK(found.find("captures.d.sizes[0] = 0, must be in 1..2147483647") != found.npos);
  CHECK(found.find("must be a multiple of 2 bytes, one element") != found.npos);
  CHECK(std::count(found.begin(), found.end(), '\n') == 5);
  captures[0].sizes[2] = 0, captures[1].data = nullptr, captures[2].number = 1, captures[3].sizes[0] = 4;
  captures[3].data = call.args.out;
  CHECK(rules().find("must not overlap out, which the call writes") != std::string::npos);
  call.args.capture_count = 0, call.problem.score_text = 0;
  call.args.captures = nullptr;
  CHECK(rules() == "");
  call.args.capture_count = 1;
  CHECK(rules() == "capture_count = 1, must be 0: score_text has so many captures\n");
}
