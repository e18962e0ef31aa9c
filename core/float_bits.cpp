// float16, bfloat16 and e4m3 bits in portable integer arithmetic.
#include <core/float_bits.h>

#include <algorithm>
#include <bit>

namespace fa2 {
namespace {

/// Returns value / 2^shift, rounded to nearest even; shift must be in 1..31.
std::uint32_t shift_to_nearest_even(std::uint32_t value, std::uint32_t shift) {
  const std::uint32_t quotient = value >> shift;
  const std::uint32_t rest = value & ((1u << shift) - 1), half = 1u << (shift - 1);
  return quotient + (rest > half || (rest == half && (quotient & 1) != 0));
}

/// Drops `low_bits` of a NaN's payload. The result stays a NaN even if no other bit is set.
std::uint16_t narrow_nan(std::uint32_t sign, std::uint32_t magnitude, std::uint32_t infinity,
                         std::uint32_t low_bits) {
  const std::uint32_t payload = (magnitude & 0x7fffff) >> low_bits;
  return static_cast<std::uint16_t>(sign | infinity | (payload != 0 ? payload : 1));
}

std::uint16_t to_f16(std::uint32_t bits) {
  const std::uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return narrow_nan(sign, magnitude, 0x7c00, 13);
  if (magnitude >= 0x47800000) return static_cast<std::uint16_t>(sign | 0x7c00);  // 2^16 and above
  std::uint32_t half = 0;
  if (magnitude >=
      0x38800000) {  // normal: 2^-14 and above; rounding may carry into the exponent, up to infinity
    half = shift_to_nearest_even(magnitude - (112u << 23), 13);
  } else if (magnitude >= 0x33000000) {  // subnormal: in units of 2^-24; less than half of one is zero
    half = shift_to_nearest_even((magnitude & 0x7fffff) | 0x800000, 126 - (magnitude >> 23));
  }
  return static_cast<std::uint16_t>(sign | half);
}

std::uint16_t to_bf16(std::uint32_t bits) {
  const std::uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return narrow_nan(sign, magnitude, 0x7f80, 16);
  return static_cast<std::uint16_t>(sign | shift_to_nearest_even(magnitude, 16));
}

float from_f16(std::uint32_t bits) {
  const std::uint32_t sign = (bits & 0x8000) << 16, magnitude = bits & 0x7fff;
  if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  if (magnitude >= 0x400) return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
  return sign != 0 ? -subnormal : subnormal;
}

}  // namespace

std::uint8_t to_e4m3(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value), sign = bits >> 24 & 0x80,
                      magnitude = bits & 0x7fffffff;
  std::uint32_t code = 0;
  if (magnitude > 0x7f800000) {
    code = 0x7f;
  } else if (magnitude >= 0x3c800000) {  // normal: 2^-6 and above
    code = std::min(shift_to_nearest_even(magnitude - (120u << 23), 20), std::uint32_t{0x7e});
  } else if (magnitude >= 0x3a800000) {  // subnormal: in units of 2^-9; half of one is a tie with zero
    code = shift_to_nearest_even((magnitude & 0x7fffff) | 0x800000, 141 - (magnitude >> 23));
  }
  return static_cast<std::uint8_t>(sign | code);
}

float from_e4m3(std::uint8_t code) {
  const std::uint32_t sign = std::uint32_t{code} << 24 & 0x80000000, magnitude = code & 0x7fu;
  if (magnitude == 0x7f) return std::bit_cast<float>(sign | 0x7fc00000);
  if (magnitude >= 8) return std::bit_cast<float>(sign | ((magnitude << 20) + (120u << 23)));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-9f;
  return sign != 0 ? -subnormal : subnormal;
}

std::uint16_t to_bits(float value, ElementType type) {
  if (type == ElementType::e4m3) return to_e4m3(value);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  return type == ElementType::f16 ? to_f16(bits) : to_bf16(bits);
}

float from_bits(std::uint16_t bits, ElementType type) {
  if (type == ElementType::e4m3) return from_e4m3(static_cast<std::uint8_t>(bits));
  return type == ElementType::f16 ? from_f16(bits) : std::bit_cast<float>(std::uint32_t{bits} << 16);
}

}  // namespace fa2
