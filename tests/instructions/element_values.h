// The values of float16 and bfloat16 by definition, in double.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace fa2::test {

struct ElementFormat {
  const char* name;  ///< type name in device code
  int exponent_bits;
  int mantissa_bits;
};

constexpr ElementFormat kElementFormats[] = {{"Half", 5, 10}, {"BFloat16", 8, 7}};

/// Returns the bits of infinity. Smaller bits are the finite values, in ascending order.
constexpr std::uint16_t infinity_bits(const ElementFormat& type) {
  return static_cast<std::uint16_t>(((1 << type.exponent_bits) - 1) << type.mantissa_bits);
}

inline double value_of(std::uint16_t bits, const ElementFormat& type) {
  const double sign = bits & 0x8000 ? -1 : 1;
  const int magnitude = bits & 0x7fff;
  if (magnitude == infinity_bits(type)) return sign * std::numeric_limits<double>::infinity();
  if (magnitude > infinity_bits(type)) return std::numeric_limits<double>::quiet_NaN();
  const int exponent = magnitude >> type.mantissa_bits,
            mantissa = magnitude & ((1 << type.mantissa_bits) - 1);
  const int hidden = exponent == 0 ? 0 : 1 << type.mantissa_bits;
  const int bias = (1 << (type.exponent_bits - 1)) - 1;
  return sign * std::ldexp(hidden + mantissa, (exponent == 0 ? 1 : exponent) - bias - type.mantissa_bits);
}

}  // namespace fa2::test
