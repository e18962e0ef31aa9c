// Copies matrices as bfloat16 to the memory where fa2 computes, and back.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "device_memory.h"
#include "matrix.h"

namespace example {

using Bfloat16 = std::uint16_t;  // the bits

/// Returns the nearest bfloat16; ties go to even.
inline Bfloat16 rounded(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<Bfloat16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline float widened(Bfloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

inline void upload(const Matrix<float>& matrix, DeviceMemory& memory) {
  std::vector<Bfloat16> values(matrix.values.size());
  std::transform(matrix.values.begin(), matrix.values.end(), values.begin(), rounded);
  memory.upload(values);
}

inline Matrix<float> downloaded(const DeviceMemory& memory, std::int64_t rows, std::int64_t columns) {
  Matrix<float> matrix(rows, columns);
  std::vector<Bfloat16> values(matrix.values.size());
  memory.download(values);
  std::transform(values.begin(), values.end(), matrix.values.begin(), widened);
  return matrix;
}

}  // namespace example
