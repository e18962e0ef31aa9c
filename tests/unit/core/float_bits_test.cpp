// Conversions between float32 and the bits of float16 and bfloat16.
#include <core/float_bits.h>
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

using namespace fa2;

TEST_CASE("conversions: every pattern of 16 bits survives the round trip") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    int broken = 0;
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const std::uint16_t narrow = static_cast<std::uint16_t>(bits);
      broken += to_bits(from_bits(narrow, dtype), dtype) != narrow;
    }
    CHECK(broken == 0);
  }
}

TEST_CASE("conversions: the nearest neighbour wins, and a tie goes to the even one") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const std::uint32_t infinity = dtype == DType::f16 ? 0x7c00 : 0x7f80;
    int broken = 0;
    for (std::uint32_t bits = 0; bits + 1 < infinity; ++bits) {
      const std::uint16_t low = static_cast<std::uint16_t>(bits), high = static_cast<std::uint16_t>(bits + 1);
      const float below = from_bits(low, dtype), above = from_bits(high, dtype);
      const float middle = static_cast<float>((double{below} + double{above}) / 2);
      const float sign = bits % 3 == 0 ? -1.0f : 1.0f;
      const std::uint16_t sign_bit = bits % 3 == 0 ? 0x8000 : 0;
      broken += !(below < above);
      broken += to_bits(sign * middle, dtype) != (sign_bit | (low % 2 == 0 ? low : high));
      broken += to_bits(sign * std::nextafter(middle, 0.0f), dtype) != (sign_bit | low);
      broken += to_bits(sign * std::nextafter(middle, std::numeric_limits<float>::infinity()), dtype) !=
                (sign_bit | high);
    }
    CHECK(broken == 0);
  }
}

TEST_CASE("conversions: overflow, NaN and the ends of the range") {
  CHECK(to_bits(65519.996f, DType::f16) == 0x7bff);
  CHECK(to_bits(65520.0f, DType::f16) == 0x7c00);
  CHECK(to_bits(-1e10f, DType::f16) == 0xfc00);
  CHECK(to_bits(0x1p-25f, DType::f16) == 0);
  CHECK(to_bits(0x1.000002p-25f, DType::f16) == 1);
  CHECK(to_bits(-0.0f, DType::f16) == 0x8000);
  CHECK(to_bits(std::numeric_limits<float>::max(), DType::bf16) == 0x7f80);
  CHECK(to_bits(-std::numeric_limits<float>::infinity(), DType::bf16) == 0xff80);
  const float thin_nan = std::bit_cast<float>(0x7f800001u);  // its payload is in the dropped bits
  CHECK(std::isnan(round_to(thin_nan, DType::f16)));
  CHECK(std::isnan(round_to(thin_nan, DType::bf16)));
}

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12 && defined(__x86_64__)
TEST_CASE("conversions: float16 agrees with the compiler") {
  int broken = 0;
  std::mt19937 generator(1);
  for (int i = 0; i < 2000000; ++i) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(generator()));
    if (std::isnan(value)) continue;
    const std::uint16_t expected = std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
    broken += to_bits(value, DType::f16) != expected;
    broken += from_bits(expected, DType::f16) != static_cast<float>(std::bit_cast<_Float16>(expected));
  }
  CHECK(broken == 0);
}
#endif

TEST_CASE("conversions of e4m3: every code survives the round trip, and ties go to the even one") {
  int broken = 0;
  for (int code = 0; code < 256; ++code) {
    const auto narrow = static_cast<std::uint8_t>(code);
    const float value = from_e4m3(narrow);
    CHECK(std::isnan(value) == ((code & 0x7f) == 0x7f));
    CHECK(std::signbit(value) == (code >= 0x80));
    broken += to_e4m3(value) != narrow;
    if ((code & 0x7f) >= 0x7e) continue;
    const float next = from_e4m3(static_cast<std::uint8_t>(code + 1)), middle = (value + next) / 2;
    broken += !(std::abs(value) < std::abs(next));
    broken += to_e4m3(middle) != code + code % 2;
    broken += to_e4m3(std::nextafter(middle, 0.0f)) != narrow;
    broken += to_e4m3(std::nextafter(middle, 2 * next)) != code + 1;
  }
  CHECK(broken == 0);
}

TEST_CASE("conversions of e4m3: known codes, and what is too large is clamped") {
  CHECK(from_e4m3(0x38) == 1.0f);
  CHECK(from_e4m3(0x01) == 0x1p-9f);
  CHECK(from_e4m3(0x08) == 0x1p-6f);
  CHECK(from_e4m3(0xfe) == -448.0f);
  for (const float large : {448.0f, 464.0f, 1e6f, std::numeric_limits<float>::infinity()}) {
    CHECK(to_e4m3(large) == 0x7e);
    CHECK(to_e4m3(-large) == 0xfe);
  }
  CHECK(to_e4m3(0x1p-10f) == 0);
  CHECK(to_e4m3(-0.0f) == 0x80);
  CHECK(std::isnan(from_e4m3(to_e4m3(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(round_to(0.3f, ElementType::e4m3) == 0.3125f);
}
