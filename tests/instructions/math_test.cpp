// Special functions: their documented errors, and the ends of their ranges.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "array_kernel.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kMin = std::numeric_limits<float>::min();
constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();
constexpr double kError = 1.0 / (1 << 22);

const std::vector<float> kSpecials = {0.0f,
                                      -0.0f,
                                      1.0f,
                                      -1.0f,
                                      kInfinity,
                                      -kInfinity,
                                      kNaN,
                                      -kNaN,
                                      kMin,
                                      -kMin,
                                      kMax,
                                      -kMax,
                                      kTiny,
                                      -kTiny,
                                      1e-40f,
                                      -1e-40f,
                                      std::nextafter(kMin, 0.0f),
                                      0x1p126f,
                                      -0x1p126f,
                                      0x1p127f,
                                      -0x1p127f,
                                      std::nextafter(0x1p126f, kMax)};

/// Returns the special values, random bits, and numbers up to 150 in magnitude.
std::vector<float> inputs() {
  std::vector<float> list = kSpecials;
  std::mt19937 random(5);
  std::uniform_real_distribution<float> moderate(-150, 150), around_one(0.4f, 2.5f);
  for (int i = 0; i < 20000; ++i) {
    list.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
    list.push_back(moderate(random));
    list.push_back(around_one(random));
  }
  return list;
}

float flushed(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}

/// Returns whether both have the same bits or both are NaN.
bool same(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

/// Returns whether y is within `error` of a finite exact result. If rounding decides about overflow or
/// flushing, either outcome counts.
bool close(float y, double exact, double error) {
  const double magnitude = std::fabs(exact);
  if (magnitude > kMax && magnitude < kMax * (1 + kError)) return y == kInfinity || y == kMax;
  if (magnitude > kMax) return same(y, std::copysign(kInfinity, static_cast<float>(exact)));
  if (magnitude < kMin * (1 - kError)) return same(y, std::copysign(0.0f, static_cast<float>(exact)));
  if (magnitude < kMin * (1 + kError) && y == 0) return true;
  return std::fabs(static_cast<double>(y) - exact) <= error;
}

/// CHECKs expected(x, y) for each input x and y = expression of x.
template <class Expected>
void expect(const std::string& expression, const Expected& expected) {
  const std::vector<float> in = inputs();
  const std::vector<float> out = map<float>(in, expression);
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!expected(in[i], out[i])) FAIL_CHECK(expression << " of " << in[i] << " is " << out[i]);
  }
}

/// CHECKs `expression` of a and b bit for bit, over all pairs of special values and some others.
template <class Expected>
void expect_of_pairs(const std::string& expression, const Expected& expected) {
  std::vector<float> in = inputs();
  if (in.size() % 2 == 1) in.pop_back();
  for (const float a : kSpecials) {
    for (const float b : kSpecials) in.insert(in.end(), {a, b});
  }
  const std::vector<float> out =
      run_over<float>(in, in.size() / 2,
                      "for (int i = thread_index(); i < p.count / 2; i += 128) {\n"
                      "  const float a = p.in[2 * i], b = p.in[2 * i + 1];\n  p.out[i] = " +
                          expression + ";\n}",
                      128);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float a = in[2 * i], b = in[2 * i + 1], wanted = expected(a, b);
    if (same(out[i], wanted)) continue;
    FAIL_CHECK(expression << " of " << a << " and " << b << " is " << out[i] << ", not " << wanted);
  }
}

}  // namespace

TEST_CASE("ex2.approx.ftz") {
  if (cannot_run()) return;
  expect("ex2_approx(x)", [](float x, float y) {
    if (std::isnan(x)) return std::isnan(y);
    if (std::isinf(x)) return same(y, x > 0 ? kInfinity : 0.0f);
    const double exact = std::exp2(static_cast<double>(flushed(x)));
    return close(y, exact, exact * kError);
  });
}

TEST_CASE("lg2.approx.ftz") {
  if (cannot_run()) return;
  expect("lg2_approx(x)", [](float x, float y) {
    x = flushed(x);
    if (std::isnan(x) || x < 0) return std::isnan(y);
    if (x == 0) return same(y, -kInfinity);
    if (std::isinf(x)) return same(y, kInfinity);
    const double exact = std::log2(static_cast<double>(x));
    const bool near_one = x >= 0.5f && x <= 2.0f;
    return std::fabs(static_cast<double>(y) - exact) <= (near_one ? kError : std::fabs(exact) * kError);
  });
}

TEST_CASE("rcp.rn.ftz is correctly rounded") {
  if (cannot_run()) return;
  expect("rcp_rn(x)", [](float x, float y) { return same(y, flushed(1.0f / flushed(x))); });
}

TEST_CASE("div.rn is correctly rounded, and keeps subnormals") {
  if (cannot_run()) return;
  expect_of_pairs("div_rn(a, b)", [](float a, float b) { return a / b; });
}

TEST_CASE("fma.rn.ftz is correctly rounded") {
  if (cannot_run()) return;
  const auto expect_with = [](const std::string& text, const auto& c) {
    expect_of_pairs("fma_rn(a, b, " + text + ")", [&](float a, float b) {
      return flushed(std::fma(flushed(a), flushed(b), flushed(c(a, b))));
    });
  };
  expect_with("0.0f", [](float, float) { return 0.0f; });
  expect_with("-0.0f", [](float, float) { return -0.0f; });
  expect_with("1e-40f", [](float, float) { return 1e-40f; });
  expect_with("infinity()", [](float, float) { return kInfinity; });
  expect_with("a", [](float a, float) { return a; });
  // The result is the rounding error of the product.
  expect_with("-(a * b)", [](float a, float b) { return -(a * b); });
}

TEST_CASE("max.ftz returns the number if one side is NaN, and +0 rather than -0") {
  if (cannot_run()) return;
  expect_of_pairs("max_f32(a, b)", [](float a, float b) {
    a = flushed(a), b = flushed(b);
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? b : a;
    if (a == 0 && b == 0) return std::signbit(a) ? b : a;
    return a > b ? a : b;
  });
}

TEST_CASE("min.ftz returns the number if one side is NaN, and -0 rather than +0") {
  if (cannot_run()) return;
  expect_of_pairs("min_f32(a, b)", [](float a, float b) {
    a = flushed(a), b = flushed(b);
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? b : a;
    if (a == 0 && b == 0) return std::signbit(a) ? a : b;
    return a < b ? a : b;
  });
}

TEST_CASE("infinity") {
  if (cannot_run()) return;
  CHECK(map<float>(std::vector<float>{0.0f}, "infinity()") == std::vector<float>{kInfinity});
}

TEST_CASE("max.NaN returns NaN if either side is NaN") {
  if (cannot_run()) return;
  const auto in = inputs();
  const auto left = map<float>(in, "max_or_nan_f32(x, 0.0f)"),
             right = map<float>(in, "max_or_nan_f32(0.0f, x)");
  int wrong = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const float x = std::abs(in[i]) < kMin ? 0.0f : in[i];
    for (const float out : {left[i], right[i]})
      wrong += std::isnan(x) ? !std::isnan(out) : out != std::max(x, 0.0f);
  }
  CHECK(wrong == 0);
}

TEST_CASE("mul.wide.u32 has all 64 bits, and abs.f32 keeps every bit but the sign") {
  if (cannot_run()) return;
  std::vector<std::uint32_t> in = {0, 1, 0xffffffff, 0x80000000, 0x10000};
  std::mt19937 random(6);
  for (int i = 0; i < 5000; ++i) in.push_back(static_cast<std::uint32_t>(random()));
  const auto low = map<std::uint32_t>(in, "mul_wide_u32(x, 0xd2511f53u + i).low");
  const auto high = map<std::uint32_t>(in, "mul_wide_u32(x, 0xd2511f53u + i).high");
  const auto inputs_of_abs = inputs();
  const auto magnitudes = map<std::uint32_t>(inputs_of_abs, "bits_of(magnitude(x))");
  int wrong = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::uint64_t product = std::uint64_t{in[i]} * (0xd2511f53u + static_cast<std::uint32_t>(i));
    wrong += low[i] != static_cast<std::uint32_t>(product) || high[i] != product >> 32;
  }
  for (std::size_t i = 0; i < inputs_of_abs.size(); ++i) {
    const float x = inputs_of_abs[i];
    wrong += !std::isnan(x) && magnitudes[i] != (std::bit_cast<std::uint32_t>(x) & 0x7fffffff);
  }
  CHECK(wrong == 0);
}
