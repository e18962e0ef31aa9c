// float16 and bfloat16 bits on the host.
#pragma once

#include <fa2/types.h>

#include <cstdint>

namespace fa2 {

/// Rounds to nearest even; keeps NaN and infinities.
std::uint16_t to_bits(float value, DType dtype);
float from_bits(std::uint16_t bits, DType dtype);
float round_to(float value, DType dtype);

}  // namespace fa2
