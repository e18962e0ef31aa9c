// Widening and rounding of e4m3, and the instructions on bytes and pairs that it uses.
#include <core/float_bits.h>
#include <doctest/doctest.h>
#include <runtime/device.h>

#include <array>
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

/// Returns words that have every code in every byte.
std::vector<std::uint32_t> every_code() {
  std::vector<std::uint32_t> words;
  for (std::uint32_t code = 0; code < 256; ++code)
    words.push_back(code | (code + 77) % 256 << 8 | (code + 131) % 256 << 16 | (code + 201) % 256 << 24);
  return words;
}

bool is_same(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

/// Returns how many halves of `pairs` are not the value of one byte of their word: `low_byte`, or `high_byte` for the upper half.
int wrong_halves(const std::vector<std::uint32_t>& words, const std::vector<std::uint32_t>& pairs,
                 DType dtype, int low_byte, int high_byte) {
  int wrong = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto value = [&](int byte) { return from_e4m3(static_cast<std::uint8_t>(words[i] >> 8 * byte)); };
    wrong += !is_same(from_bits(static_cast<std::uint16_t>(pairs[i]), dtype), value(low_byte));
    wrong += !is_same(from_bits(static_cast<std::uint16_t>(pairs[i] >> 16), dtype), value(high_byte));
  }
  return wrong;
}

/// Returns every value, every tie with the next one, the floats beside both, floats beyond all, and random ones; of either sign.
std::vector<float> floats_to_round() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> floats = {464,
                               std::nextafter(464.0f, 0.0f),
                               std::nextafter(464.0f, 500.0f),
                               480,
                               512,
                               1e30f,
                               kInfinity,
                               std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::denorm_min(),
                               std::numeric_limits<float>::quiet_NaN(),
                               std::bit_cast<float>(0x7f800001u)};
  for (int code = 0; code < 126; ++code) {
    const float value = from_e4m3(static_cast<std::uint8_t>(code)),
                next = from_e4m3(static_cast<std::uint8_t>(code + 1));
    for (const float x : {value, next, value + (next - value) / 2})
      floats.insert(floats.end(), {x, std::nextafter(x, 0.0f), std::nextafter(x, kInfinity)});
  }
  std::mt19937 random(6);
  for (int i = 0; i < 4096; ++i) floats.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  for (int i = 0; i < 4096; ++i)  // 2^-12 to 2^10
    floats.push_back(std::bit_cast<float>(115u << 23 | static_cast<std::uint32_t>(random()) % (22u << 23)));
  for (std::size_t i = 0, count = floats.size(); i < count; ++i) floats.push_back(-floats[i]);
  return floats;
}

/// Returns whether `code` is x rounded. NaN may have either sign.
bool is_code_of(std::uint32_t code, float x) {
  return std::isnan(x) ? (code & 0x7f) == 0x7f : code == to_e4m3(x);
}

/// Returns how many bytes of the words are not x, -x, 2 x and 1 rounded, for the float x of each word.
int wrong_codes(const std::vector<float>& floats, const std::vector<std::uint32_t>& words) {
  int wrong = 0;
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const float x = floats[i];
    wrong += !is_code_of(words[i] & 255, x) || !is_code_of(words[i] >> 8 & 255, -x) ||
             !is_code_of(words[i] >> 16 & 255, 2 * x) || !is_code_of(words[i] >> 24, 1);
  }
  return wrong;
}

std::vector<std::uint32_t> random_words(std::size_t count) {
  std::mt19937 random(5);
  std::vector<std::uint32_t> words(count);
  for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random());
  return words;
}

const std::vector<std::string> kHeaders = {"tile/e4m3.cuh"};

}  // namespace

TEST_CASE("cvt.rn.f16x2.e4m3x2 gives the value of every code, and NaN for NaN") {
  if (cannot_run()) return;
  if (device(device_under_test()).arch.compute_capability < 89) {
    MESSAGE("not tested: GPUs before sm_89 have no such instruction");
    return;
  }
  const std::vector<std::uint32_t> words = every_code();
  const auto low = map<std::uint32_t>(words, "cvt_f16_e4m3_x4(x).low");
  const auto high = map<std::uint32_t>(words, "cvt_f16_e4m3_x4(x).high");
  CHECK(wrong_halves(words, low, DType::f16, 0, 1) == 0);
  CHECK(wrong_halves(words, high, DType::f16, 2, 3) == 0);
}

TEST_CASE("e4m3 is widened exactly, with the instruction and without, in either type") {
  if (cannot_run()) return;
  const std::vector<std::uint32_t> words = every_code();
  const bool converts = device(device_under_test()).arch.compute_capability >= 89;
  std::vector<std::string> ways = {"widen<Half, false>", "widen<BFloat16, false>"};
  if (converts) ways.insert(ways.end(), {"widen<Half, true>", "widen<BFloat16, true>"});
  for (const std::string& way : ways) {
    INFO(way);
    const DType dtype = way.find("Half") != std::string::npos ? DType::f16 : DType::bf16;
    CHECK(wrong_halves(words, map<std::uint32_t>(words, way + "(x).even", kHeaders), dtype, 0, 2) == 0);
    CHECK(wrong_halves(words, map<std::uint32_t>(words, way + "(x).odd", kHeaders), dtype, 1, 3) == 0);
  }
  for (const bool by_conversion : {false, true}) {
    if (by_conversion && !converts) continue;
    const std::string way = by_conversion ? "widen_to_half<true>(x)" : "widen_to_half<false>(x)";
    INFO(way);
    CHECK(wrong_halves(words, map<std::uint32_t>(words, way + ".low", kHeaders), DType::f16, 0, 1) == 0);
    CHECK(wrong_halves(words, map<std::uint32_t>(words, way + ".high", kHeaders), DType::f16, 2, 3) == 0);
  }
}

TEST_CASE("e4m3 is widened in order, and to bfloat16 times a factor, which rounds once") {
  if (cannot_run()) return;
  if (device(device_under_test()).arch.compute_capability < 89) {
    MESSAGE("not tested: GPUs before sm_89 have no such instruction");
    return;
  }
  const std::vector<std::uint32_t> words = every_code();
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const std::string way = dtype == DType::f16 ? "widen_in_order<Half>(x)" : "widen_in_order<BFloat16>(x)";
    CHECK(wrong_halves(words, map<std::uint32_t>(words, way + ".low", kHeaders), dtype, 0, 1) == 0);
    CHECK(wrong_halves(words, map<std::uint32_t>(words, way + ".high", kHeaders), dtype, 2, 3) == 0);
  }
  constexpr float kFactor = 0x1.2468acp-3f;
  const auto low = map<std::uint32_t>(words, "widen_times(x, 0x1.2468acp-3f).low", kHeaders);
  const auto high = map<std::uint32_t>(words, "widen_times(x, 0x1.2468acp-3f).high", kHeaders);
  int wrong = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (std::uint32_t byte = 0; byte < 4; ++byte) {
      const float value = from_e4m3(static_cast<std::uint8_t>(words[i] >> 8 * byte)) * kFactor;
      const auto found = static_cast<std::uint16_t>((byte < 2 ? low : high)[i] >> byte % 2 * 16);
      wrong += !is_same(from_bits(found, DType::bf16), from_bits(to_bits(value, DType::bf16), DType::bf16));
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("e4m3 is rounded to nearest even and clamped to 448, with the instruction and without") {
  if (cannot_run()) return;
  const std::vector<float> floats = floats_to_round();
  std::vector<std::string> ways = {"narrow<false>"};
  if (device(device_under_test()).arch.compute_capability >= 89)
    ways.insert(ways.end(), {"narrow<true>", "cvt_rn_e4m3_x4"});
  for (const std::string& way : ways) {
    INFO(way);
    CHECK(wrong_codes(floats, map<std::uint32_t>(floats, way + "(x, -x, 2.0f * x, 1.0f)", kHeaders)) == 0);
  }
}

TEST_CASE("prmt chooses bytes of two registers, or their signs") {
  if (cannot_run()) return;
  const std::vector<std::uint32_t> words = random_words(4096);
  // Each word serves as the first register, its complement as the second, its square as the selector.
  const auto chosen = map<std::uint32_t>(words, "prmt(x, ~x, x * x)");
  int wrong = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::array<std::uint8_t, 8> bytes{};
    for (std::size_t b = 0; b < 8; ++b)
      bytes[b] = static_cast<std::uint8_t>((b < 4 ? words[i] : ~words[i]) >> 8 * (b % 4));
    for (std::uint32_t b = 0; b < 4; ++b) {
      const std::uint32_t digit = words[i] * words[i] >> 4 * b & 15, byte = bytes[digit % 8];
      wrong += (chosen[i] >> 8 * b & 255) != (digit < 8 ? byte : byte >= 128 ? 255u : 0u);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("products of pairs are rounded to nearest even, and subnormals count") {
  if (cannot_run()) return;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    // Factors of moderate size, and subnormals times powers of two.
    std::vector<std::uint32_t> words = random_words(4096);
    const std::uint32_t power = dtype == DType::f16 ? 0x5c00 : 0x7b80, least = dtype == DType::f16 ? 10 : 7;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::uint32_t exponents = dtype == DType::f16 ? 0x3fff : 0x47ff;
      words[i] = i % 2 == 0 ? words[i] & (exponents << 16 | 0x80008000u | exponents)
                            : power << 16 | (words[i] & ((1u << least) - 1));
    }
    const std::string name = dtype == DType::f16 ? "Half" : "BFloat16";
    const auto products = map<std::uint32_t>(words, "mul_rn_x2<" + name + ">(x, x << 16 | x >> 16)");
    int wrong = 0;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const auto low = static_cast<std::uint16_t>(words[i]),
                 high = static_cast<std::uint16_t>(words[i] >> 16);
      const float product = from_bits(low, dtype) * from_bits(high, dtype);
      if (std::isnan(product)) continue;
      const std::uint32_t wanted = to_bits(product, dtype);
      wrong += products[i] != (wanted | wanted << 16);
    }
    CHECK(wrong == 0);
  }
}
