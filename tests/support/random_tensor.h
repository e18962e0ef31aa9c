// Tensors of normally distributed values, for references and devices.
#pragma once

#include <core/float_bits.h>
#include <reference/attention_reference.h>

#include <cstdint>
#include <random>
#include <vector>

namespace fa2::test {

/// Returns a tensor of values that `dtype` can hold. The seed determines them.
inline reference::Tensor random_tensor(std::int64_t batch, std::int64_t heads, std::int64_t rows,
                                       std::int64_t dim, DType dtype, unsigned seed) {
  reference::Tensor tensor{batch, heads, rows, dim,
                           std::vector<float>(static_cast<std::size_t>(batch * heads * rows * dim))};
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  for (float& value : tensor.values) value = round_to(normal(generator), dtype);
  return tensor;
}

}  // namespace fa2::test
