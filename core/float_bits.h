// float16, bfloat16 and e4m3 bits on the host.
#pragma once

#include <core/element_type.h>
#include <fa2/types.h>

#include <cstdint>

namespace fa2 {

/// Rounds to nearest even; keeps NaN and infinities.
std::uint16_t to_bits(float value, DType dtype);
float from_bits(std::uint16_t bits, DType dtype);
float round_to(float value, DType dtype);

/// Rounds to nearest even and clamps to 448, infinities too; keeps NaN.
std::uint8_t to_e4m3(float value);
float from_e4m3(std::uint8_t code);

/// Like the functions above, for f16, bf16 and e4m3, whose code is the low byte.
std::uint16_t to_bits(float value, ElementType type);
float from_bits(std::uint16_t bits, ElementType type);
float round_to(float value, ElementType type);

}  // namespace fa2
