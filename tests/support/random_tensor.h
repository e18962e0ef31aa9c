// Tensors of normally distributed values, for references and devices.
#pragma once

#include <core/float_bits.h>
#include <reference/attention_reference.h>

#include <cstdint>
#include <random>
#include <vector>

namespace fa2::test {

/// Returns a tensor of values that `type`, a DType or an ElementType, can hold. The seed determines them.
template <class Type>
reference::Tensor random_tensor(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t dim,
                                Type type, unsigned seed) {
  reference::Tensor tensor{batch, heads, rows, dim,
                           std::vector<float>(static_cast<std::size_t>(batch * heads * rows * dim))};
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  for (float& value : tensor.values) value = round_to(normal(generator), type);
  return tensor;
}

}  // namespace fa2::test
