// mma.m16n8k16: the elements that each lane holds, exact products, float32 sums.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "array_kernel.h"
#include "element_values.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// A and B as bits of 16-bit elements, and a float32 accumulator.
struct Operands {
  std::array<std::array<std::uint16_t, 16>, 16> a = {};
  std::array<std::array<std::uint16_t, 8>, 16> b = {};
  std::array<std::array<float, 8>, 16> c = {};
};
using Product = std::array<std::array<float, 8>, 16>;

/// Returns the bits of a value that the type represents exactly.
std::uint16_t bits_of(double value, const ElementFormat& type) {
  if (std::isnan(value)) return 0x7fff;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const double found = value_of(static_cast<std::uint16_t>(bits), type);
    if (found == value && std::signbit(found) == std::signbit(value)) return static_cast<std::uint16_t>(bits);
  }
  throw Error(ErrorCode::internal, fmt::format("{} is no {}", value, type.name));
}

/// Multiplies with fragments as the PTX ISA lays them out: lane l has group l / 4 and position l % 4.
Product multiply(const Operands& m, const ElementFormat& type) {
  std::vector<std::uint32_t> words;
  const auto pair = [](std::uint32_t low, std::uint32_t high) { return low | high << 16; };
  for (std::size_t lane = 0; lane < 32; ++lane) {
    const std::size_t group = lane / 4, place = lane % 4;
    for (const std::size_t k : {2 * place, 2 * place + 8}) {
      for (const std::size_t row : {group, group + 8}) words.push_back(pair(m.a[row][k], m.a[row][k + 1]));
    }
    for (const std::size_t k : {2 * place, 2 * place + 8})
      words.push_back(pair(m.b[k][group], m.b[k + 1][group]));
    for (const std::size_t row : {group, group + 8}) {
      for (const std::size_t col : {2 * place, 2 * place + 1})
        words.push_back(std::bit_cast<std::uint32_t>(m.c[row][col]));
    }
  }
  const auto d = run_over<float>(words, 32 * 4,
                                 std::string("const u32* w = p.in + 10 * lane_index();\n"
                                             "const u32 a[4] = {w[0], w[1], w[2], w[3]};\n"
                                             "float d[4];\n"
                                             "for (int i = 0; i < 4; ++i) d[i] = *reinterpret_cast<const "
                                             "float*>(w + 6 + i);\n"
                                             "mma_m16n8k16<") +
                                     type.name +
                                     ">(d, a, w[4], w[5]);\n"
                                     "for (int i = 0; i < 4; ++i) p.out[4 * lane_index() + i] = d[i];");
  Product product;
  for (std::size_t lane = 0; lane < 32; ++lane) {
    for (std::size_t i = 0; i < 4; ++i) product[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = d[4 * lane + i];
  }
  return product;
}

/// Returns operands made of `next()`, rounded towards zero to the type.
Operands operands_of(const ElementFormat& type, const std::function<double()>& next) {
  const auto fill = [&](auto& matrix) {
    for (auto& row : matrix) {
      for (auto& x : row) {
        std::uint16_t below = 0;
        const double value = next(), magnitude = std::fabs(value);
        for (int bit = 14; bit >= 0; --bit) {
          const auto more = static_cast<std::uint16_t>(below | 1 << bit);
          if (value_of(more, type) <= magnitude) below = more;
        }
        x = static_cast<std::uint16_t>(below | (value < 0 ? 0x8000 : 0));
      }
    }
  };
  Operands m;
  fill(m.a);
  fill(m.b);
  for (auto& row : m.c) {
    for (float& x : row) x = static_cast<float>(next());
  }
  return m;
}

/// CHECKs each element against the sum in double, within `error` times the sum of magnitudes.
void expect_product(const Operands& m, const ElementFormat& type, double error) {
  const Product d = multiply(m, type);
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t col = 0; col < 8; ++col) {
      double sum = static_cast<double>(m.c[row][col]), magnitude = std::fabs(sum);
      for (std::size_t k = 0; k < 16; ++k) {
        const double product = value_of(m.a[row][k], type) * value_of(m.b[k][col], type);
        sum += product;
        magnitude += std::fabs(product);
      }
      const double off = std::fabs(static_cast<double>(d[row][col]) - sum);
      CHECK_MESSAGE(off <= error * magnitude, type.name, ": row ", row, ", column ", col, " is ", d[row][col],
                    ", not ", sum);
    }
  }
}

/// Returns D(0, 0) for row 0 of A, column 0 of B and C(0, 0). Missing values are 0.
float dot(const ElementFormat& type, const std::vector<double>& a, const std::vector<double>& b,
          float c = 0) {
  Operands m;
  for (std::size_t k = 0; k < a.size(); ++k) {
    m.a[0][k] = bits_of(a[k], type);
    m.b[k][0] = bits_of(b[k], type);
  }
  m.c[0][0] = c;
  return multiply(m, type)[0][0];
}

}  // namespace

TEST_CASE("mma of small integers is exact") {
  if (cannot_run()) return;
  std::mt19937 random(3);
  for (const ElementFormat& type : kElementFormats) {
    for (int i = 0; i < 4; ++i)
      expect_product(operands_of(type, [&] { return static_cast<double>(random() % 33) - 16; }), type, 0);
  }
}

TEST_CASE("mma of normally distributed values, up to the order of summation") {
  if (cannot_run()) return;
  std::mt19937 random(4);
  std::normal_distribution<double> normal(0, 3);
  for (const ElementFormat& type : kElementFormats) {
    for (int i = 0; i < 4; ++i)
      expect_product(operands_of(type, [&] { return normal(random); }), type, 1.0 / (1 << 21));
  }
}

TEST_CASE("mma keeps subnormal operands") {
  if (cannot_run()) return;
  for (const ElementFormat& type : kElementFormats) {
    const double least = value_of(1, type);
    const double large =
        value_of(static_cast<std::uint16_t>(infinity_bits(type) - (1 << type.mantissa_bits)), type);
    CHECK(dot(type, {least}, {large}) == static_cast<float>(least * large));
    CHECK(dot(type, {3 * least, large}, {large, -5 * least}) == static_cast<float>(-2 * least * large));
  }
}

TEST_CASE("mma of infinities and NaN") {
  if (cannot_run()) return;
  constexpr auto kInf = std::numeric_limits<float>::infinity();
  for (const ElementFormat& type : kElementFormats) {
    CHECK(dot(type, {kInfinity, 5}, {2, 3}) == kInf);
    CHECK(dot(type, {kInfinity}, {-2}) == -kInf);
    CHECK(dot(type, {1}, {1}, kInf) == kInf);
    CHECK(std::isnan(dot(type, {kInfinity}, {0})));
    CHECK(std::isnan(dot(type, {kInfinity, kInfinity}, {1, -1})));
    CHECK(std::isnan(dot(type, {kInfinity}, {1}, -kInf)));
    CHECK(std::isnan(dot(type, {kNaN}, {0})));
    CHECK(std::isnan(dot(type, {1}, {1}, std::numeric_limits<float>::quiet_NaN())));
  }
  CHECK(dot(kElementFormats[1], {0x1p127}, {4}) == kInf);
}

TEST_CASE("a NaN in mma stays in its row and column") {
  if (cannot_run()) return;
  for (const ElementFormat& type : kElementFormats) {
    Operands m;
    m.a[9][4] = bits_of(kNaN, type);
    m.b[13][6] = bits_of(kNaN, type);
    const Product d = multiply(m, type);
    for (std::size_t row = 0; row < 16; ++row) {
      for (std::size_t col = 0; col < 8; ++col) CHECK(std::isnan(d[row][col]) == (row == 9 || col == 6));
    }
  }
}
