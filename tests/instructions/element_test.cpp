// Conversions between float32 and the 16-bit types, bit for bit.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "array_kernel.h"
#include "element_values.h"

using namespace fa2;
using namespace fa2::test;

namespace {

constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Returns the bits of the value nearest to x, even on a tie, by bisection over all values.
std::uint16_t nearest(float x, const ElementFormat& type) {
  if (std::isnan(x)) return 0x7fff;
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const double magnitude = std::fabs(static_cast<double>(x));
  std::uint16_t below = 0, above = infinity_bits(type);
  while (above - below > 1) {
    const auto middle = static_cast<std::uint16_t>((below + above) / 2);
    (value_of(middle, type) <= magnitude ? below : above) = middle;
  }
  // Infinity counts as the value after the largest.
  const double low = value_of(below, type);
  const double step =
      below == 0 ? value_of(1, type) : low - value_of(static_cast<std::uint16_t>(below - 1), type);
  const double high = above == infinity_bits(type) ? low + step : value_of(above, type);
  const bool up =
      magnitude - low > high - magnitude || (magnitude - low == high - magnitude && below % 2 == 1);
  return static_cast<std::uint16_t>(sign | (up ? above : below));
}

/// Returns each value, its midpoint to the next, and the floats next to that, with both signs.
std::vector<float> values_and_ties(const ElementFormat& type) {
  std::vector<float> list;
  for (int bits = 0; bits + 1 < infinity_bits(type); ++bits) {
    const double low = value_of(static_cast<std::uint16_t>(bits), type);
    const double high = value_of(static_cast<std::uint16_t>(bits + 1), type);
    const auto tie = static_cast<float>((low + high) / 2);
    for (const float x :
         {static_cast<float>(low), tie, std::nextafter(tie, 0.0f), std::nextafter(tie, kInfinity)}) {
      list.push_back(x);
      list.push_back(-x);
    }
  }
  return list;
}

std::vector<float> extremes(const ElementFormat& type) {
  const double largest = value_of(static_cast<std::uint16_t>(infinity_bits(type) - 1), type);
  const double before = value_of(static_cast<std::uint16_t>(infinity_bits(type) - 2), type);
  const auto tie = static_cast<float>(largest + (largest - before) / 2);
  std::vector<float> list = {static_cast<float>(largest),
                             tie,
                             std::nextafter(tie, 0.0f),
                             std::nextafter(tie, kInfinity),
                             kMax,
                             kInfinity,
                             std::numeric_limits<float>::denorm_min(),
                             std::numeric_limits<float>::min()};
  for (std::size_t i = 0, n = list.size(); i < n; ++i) list.push_back(-list[i]);
  for (const std::uint32_t bits :
       {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu})
    list.push_back(std::bit_cast<float>(bits));
  return list;
}

void expect_nearest(const std::vector<float>& in, const ElementFormat& type) {
  // Each value is in the low half, its neighbour in the high half.
  const std::string convert = std::string("cvt_rn_x2<") + type.name + ">";
  const auto packed = map<std::uint32_t>(in, convert + "(x, p.in[i ^ 1])");
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto expected = nearest(in[i], type);
    if (packed[i] % 65536 == expected && packed[i ^ 1] >> 16 == expected) continue;
    FAIL_CHECK(type.name << " of " << in[i] << " (bits " << std::bit_cast<std::uint32_t>(in[i])
                         << "): " << packed[i] % 65536 << " low, " << (packed[i ^ 1] >> 16) << " high, not "
                         << expected);
  }
}

}  // namespace

TEST_CASE("cvt.rn rounds every tie and its neighbours to nearest even") {
  if (cannot_run()) return;
  for (const ElementFormat& type : kElementFormats) expect_nearest(values_and_ties(type), type);
}

TEST_CASE("cvt.rn at the ends of the range, and of NaN, which becomes 0x7fff") {
  if (cannot_run()) return;
  for (const ElementFormat& type : kElementFormats) expect_nearest(extremes(type), type);
}

TEST_CASE("every 16-bit value that is not NaN survives conversion to float and cvt.rn") {
  if (cannot_run()) return;
  for (const ElementFormat& type : kElementFormats) {
    std::vector<float> values;
    std::vector<std::uint32_t> expected;
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const double value = value_of(static_cast<std::uint16_t>(bits), type);
      if (std::isnan(value)) continue;
      values.push_back(static_cast<float>(value));
      expected.push_back(bits | bits << 16);
    }
    CHECK(map<std::uint32_t>(values, std::string("cvt_rn_x2<") + type.name + ">(x, x)") == expected);
  }
}

TEST_CASE("every 16-bit value becomes its float, in either half of a pair") {
  if (cannot_run()) return;
  for (const ElementFormat& type : kElementFormats) {
    std::vector<std::uint32_t> pairs;
    for (std::uint32_t bits = 0; bits < 65536; ++bits) pairs.push_back(bits | (65535 - bits) << 16);
    const auto floats = run_over<float>(pairs, 2 * pairs.size(),
                                        std::string("for (int i = thread_index(); i < p.count; i += 128) {\n"
                                                    "  const Pair pair = cvt_f32_x2<") +
                                            type.name +
                                            ">(p.in[i]);\n"
                                            "  p.out[2 * i] = pair.low;\n  p.out[2 * i + 1] = pair.high;\n}",
                                        128);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < floats.size(); ++i) {
      const std::uint32_t pair = pairs[i / 2];
      const auto exact =
          static_cast<float>(value_of(static_cast<std::uint16_t>(i % 2 == 0 ? pair : pair >> 16), type));
      const bool same_bits = std::bit_cast<std::uint32_t>(floats[i]) == std::bit_cast<std::uint32_t>(exact);
      wrong += std::isnan(exact) ? !std::isnan(floats[i]) : !same_bits;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("every finite 16-bit value times the identity by mma is unchanged") {
  if (cannot_run()) return;
  for (const ElementFormat& type : kElementFormats) {
    std::vector<std::uint32_t> pairs;  // pairs of neighbours, with bits 2i and 2i + 1
    for (std::uint32_t bits = 0; bits < 65536; bits += 2) pairs.push_back(bits | (bits + 1) << 16);
    // B is the 8x8 identity above zeros: lane (g, q) holds rows 2q and 2q+1 of column g.
    const std::uint32_t one = nearest(1.0f, type);
    const std::string body =
        "const int lane = lane_index();\n"
        "const u32 one = " +
        std::to_string(one) +
        ";\n"
        "const u32 b = lane / 4 / 2 == lane % 4 ? one << 16 * (lane / 4 % 2) : 0;\n"
        "for (int i = lane; i < p.count; i += 32) {\n"
        "  const bool finite = (p.in[i] & " +
        std::to_string(infinity_bits(type)) + ") != " + std::to_string(infinity_bits(type)) +
        ";\n"
        "  const u32 a[4] = {finite ? p.in[i] : 0, 0, 0, 0};\n"
        "  float d[4] = {};\n"
        "  mma_m16n8k16<" +
        type.name +
        ">(d, a, b, 0);\n"
        "  p.out[2 * i] = d[0];\n  p.out[2 * i + 1] = d[1];\n}";
    const auto values = run_over<float>(pairs, 65536, body);
    std::size_t wrong = 0;
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const double expected = value_of(static_cast<std::uint16_t>(bits), type);
      if (std::isfinite(expected)) wrong += static_cast<double>(values[bits]) != expected;
    }
    CHECK(wrong == 0);
  }
}
