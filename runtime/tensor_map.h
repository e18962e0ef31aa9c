// Descriptions of tensors for TMA: the maps that a kernel takes in its parameter.
#pragma once

#include <core/element_type.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <templates/machine/tensor_map.cuh>

namespace fa2 {

struct TensorDimension {
  std::int64_t size = 1;  ///< elements
  /// Bytes; ignored if size is 1, and for the first dimension, which is contiguous.
  std::int64_t stride = 0;
  std::int32_t box = 1;  ///< elements that one copy moves
};

/// A tensor and the box that each copy through the map moves; fastest dimension first. Unneeded dimensions
/// keep their defaults. A box lies densely in shared memory, with its 16-byte chunks permuted by the swizzle.
struct TensorMapSpec {
  void* data = nullptr;
  ElementType element = ElementType::f16;
  Swizzle swizzle = Swizzle::none;
  std::array<TensorDimension, 5> dimensions;
};

/// Encodes a map for the current device: with the driver for a GPU, as an InterpretedTensorMap for the
/// interpreter. Thread-safe. @throws InvalidRequest listing what TMA cannot do, CudaError, Unavailable.
TensorMap encode_tensor_map(const TensorMapSpec& spec);

/// The contents of a map for the interpreter.
struct InterpretedTensorMap {
  static constexpr std::uint64_t kMark = 0xfa2'7e45'0417'3a90;

  std::uint64_t mark;
  std::byte* data;
  std::int64_t stride[5];  ///< bytes
  std::uint32_t size[5];   ///< elements; 0 means 2^32
  std::uint16_t box[5];
  ElementType element;
  Swizzle swizzle;
};
static_assert(sizeof(InterpretedTensorMap) <= sizeof(TensorMap));

}  // namespace fa2
