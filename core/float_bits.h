// float16, bfloat16 and e4m3 bits on the host.
#pragma once

#include <core/element_type.h>
#include <fa2/types.h>

#include <cstdint>

namespace fa2 {

/// Rounds to nearest even and clamps to 448, infinities too; keeps NaN.
std::uint8_t to_e4m3(float value);
float from_e4m3(std::uint8_t code);

/// For f16, bf16 and e4m3, whose code is the low byte. Rounds to nearest even; keeps NaN, and infinities in 16 bits.
std::uint16_t to_bits(float value, ElementType type);
float from_bits(std::uint16_t bits, ElementType type);
inline float round_to(float value, ElementType type) {
  return from_bits(to_bits(value, type), type);
}

/// For tensors of this dtype.
inline std::uint16_t to_bits(float value, DType dtype) {
  return to_bits(value, element_of(dtype));
}
inline float from_bits(std::uint16_t bits, DType dtype) {
  return from_bits(bits, element_of(dtype));
}
inline float round_to(float value, DType dtype) {
  return round_to(value, element_of(dtype));
}

}  // namespace fa2
