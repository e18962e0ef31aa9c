// Texts of scores as functions of the host: every function that a text may call, its derivative, and captures of every type.
#include <core/float_bits.h>
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <interpreter/host_text.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace fa2;
using interpreter::HostPosition;
using interpreter::HostText;

namespace {

constexpr HostPosition kAt = {.batch = 1, .head = 2, .query = 3, .key = 5, .queries = 7, .keys = 11};

struct Case {
  const char* text;
  double (*value)(double x);
};

/// Smooth between 0.2 and 0.8, but for what is constant.
const Case kCases[] = {
    {"return exp(score);", [](double x) { return std::exp(x); }},
    {"return exp2(score);", [](double x) { return std::exp2(x); }},
    {"return log(score);", [](double x) { return std::log(x); }},
    {"return log2(score);", [](double x) { return std::log2(x); }},
    {"return log1p(score);", [](double x) { return std::log1p(x); }},
    {"return tanh(score);", [](double x) { return std::tanh(x); }},
    {"return sigmoid(score);", [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"return sin(score) + 2 * cos(score);", [](double x) { return std::sin(x) + 2 * std::cos(x); }},
    {"return erf(score);", [](double x) { return std::erf(x); }},
    {"return sqrt(score) + rsqrt(score);", [](double x) { return std::sqrt(x) + 1 / std::sqrt(x); }},
    {"return pow(score, 3.0f) + pow(2.0f, score);", [](double x) { return x * x * x + std::exp2(x); }},
    {"return floor(4 * score) + ceil(score) + round(score) + trunc(score);",
     [](double x) { return std::floor(4 * x) + std::ceil(x) + std::nearbyint(x) + std::trunc(x); }},
    {"return abs(-score) * abs(at.query - at.key);", [](double x) { return 2 * x; }},
    {"Score y = min(score, 0.45f) + max(score, 0.55f) * 3; y *= 2; return y - 1;",
     [](double x) { return 2 * (std::min(x, 0.45) + std::max(x, 0.55) * 3) - 1; }},
    {"return select(score < 0.5f, score * score, -score) / (score + 1);",
     [](double x) { return (x < 0.5 ? x * x : -x) / (x + 1); }},
    {"return remainder(score, 0.3f) + floor_div(score, 0.3f) + remainder(-7, 4) + floor_div(-7, 4);",
     [](double x) { return x - 0.3 * std::floor(x / 0.3) + std::floor(x / 0.3) - 1; }},
    {"auto y = score; if (at.head == 2) return y * at.key; return y;", [](double x) { return 5 * x; }}};

}  // namespace

TEST_CASE("host texts: functions and their derivatives") {
  std::string all = "const int n = at.batch;\n";
  for (const Case& of : kCases)
    all += std::string("if (at.queries == ") + std::to_string(&of - kCases) + ") { " + of.text + " }\n";
  const HostText text(make_score_text({.mod = all + "return score + n;"}), {});
  for (const Case& of : kCases) {
    HostPosition at = kAt;
    at.queries = static_cast<int>(&of - kCases);
    INFO(of.text);
    for (const double x : {0.21, 0.42, 0.5001, 0.58, 0.77}) {
      CHECK(text.modified(x, at) == doctest::Approx(of.value(x)).epsilon(1e-7));
      constexpr double kStep = 1e-6;
      const double slope = (of.value(x + kStep) - of.value(x - kStep)) / (2 * kStep);
      CHECK(text.slope(x, at) == doctest::Approx(slope).epsilon(1e-6));
    }
  }
  CHECK_FALSE(text.has_mask());
}

TEST_CASE(
    "host texts: bias comes before mod, a hidden score has slope 0, and ties have half of both slopes") {
  const HostText text(make_score_text({.bias = "return at.key;",
                                       .mod = "if (at.head == 0) return -infinity() * exp(score);\n"
                                              "return max(score, 5.0f) + abs(score - 5);",
                                       .mask = "return at.key < at.keys - at.queries;"}),
                      {});
  CHECK(text.modified(2, kAt) == 9);
  CHECK(text.slope(2, kAt) == 2);
  CHECK(text.slope(0, kAt) == 0.5);
  HostPosition at = kAt;
  at.head = 0;
  CHECK(text.modified(2, at) == -std::numeric_limits<double>::infinity());
  CHECK(text.slope(2, at) == 0);
  CHECK(text.has_mask());
  CHECK_FALSE(text.is_visible(kAt));
  at.key = 3;
  CHECK(text.is_visible(at));
}

TEST_CASE("host texts: captures of every type") {
  const std::vector<std::uint16_t> half = {to_bits(-0.75f, DType::f16), 0x0001, 0x7c00},
                                   bfloat16 = {to_bits(1.5f, DType::bf16), to_bits(-3.0f, DType::bf16)};
  const std::vector<float> single = {1, 2, 3, 4, 5, 6};
  const std::vector<std::int32_t> int32 = {-7};
  const std::vector<std::int64_t> int64 = {std::int64_t{1} << 40};
  const std::vector<std::uint8_t> bytes = {200}, flags = {2};
  const ScoreTexts texts = {
      .mod =
          "if (score == 0) return half(at.batch);\nif (score == 1) return b(at.batch);\n"
          "if (score == 2) return f(at.batch, at.head);\nif (score == 3) return i();\n"
          "if (score == 4) return l(0) >> 38;\nif (score == 5) return u(at.key);\n"
          "return t(0) ? half(2) : 0;",
      .captures = {{"half", CaptureType::f16, 1},
                   {"b", CaptureType::bf16, 1},
                   {"f", CaptureType::f32, 2},
                   {"i", CaptureType::i32, 0},
                   {"l", CaptureType::i64, 1},
                   {"u", CaptureType::u8, 1},
                   {"t", CaptureType::boolean, 1}}};
  const std::vector<ScoreCapture> captures = {
      {.data = half.data(), .sizes = {3}, .strides = {1}},
      {.data = bfloat16.data(), .sizes = {2}, .strides = {1}},
      {.data = single.data() + 5, .sizes = {2, 3}, .strides = {-3, -1}},
      {.data = int32.data()},
      {.data = int64.data(), .sizes = {1}, .strides = {1}},
      {.data = bytes.data(), .sizes = {1}, .strides = {1}},
      {.data = flags.data(), .sizes = {1}, .strides = {1}}};
  const HostText text(make_score_text(texts), captures);
  const double expected[] = {0x1p-24, -3, 1, -7, 4, 200, std::numeric_limits<double>::infinity()};
  for (int i = 0; i < 7; ++i) CHECK(text.modified(i, kAt) == expected[i]);

  const HostText numbers(
      make_score_text({.mod = "return is_on() ? gain() + count() / 2 + large() / 1000000000000 : 0;",
                       .captures = {{"gain"},
                                    {"count", CaptureType::i32},
                                    {"large", CaptureType::i64},
                                    {"is_on", CaptureType::boolean}}}),
      {{.number = 0.5}, {.number = -7}, {.number = 3e12}, {.number = 1}});
  CHECK(numbers.modified(1, kAt) == 0.5);
}

TEST_CASE("host texts: a capture with an element per score") {
  std::vector<float> elements(3 * 4 * 8);  // of a head, a query and a key
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<float>(i);
  const HostText text(make_score_text({.bias = "return 2 * pair(at);",
                                       .mod = "return score * pair(at);",
                                       .captures = {{"pair", CaptureType::f32, CaptureSpec::kPerScore}}}),
                      {{.data = elements.data(), .sizes = {1, 3, 4, 6}, .strides = {0, 32, 8, 1}}});
  constexpr double kElement = 2 * 32 + 3 * 8 + 5;
  CHECK(text.modified(1, kAt) == (1 + 2 * kElement) * kElement);
  CHECK(text.slope(1, kAt) == kElement);
}

TEST_CASE("host texts: an error of the compiler names the text's file and line") {
  const std::int64_t number =
      make_score_text({.mod = ScoreText("return score +\n  nothing;", "my texts", 40)});
  CHECK_THROWS_WITH_AS(HostText(number, {}), doctest::Contains("my texts:41"), CompileError);
  CHECK_THROWS_AS(HostText(12345, {}), InvalidRequest);
}
