// Addresses within the tensors of a call.
#pragma once

#include <fa2/args.h>
#include <parallel/element_sizes.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace fa2 {

/// Returns the address of a row of a head of an entry; null for no tensor.
template <class Data>
Data* place_of(Data* data, const TensorStrides& strides, std::int64_t entry, std::int64_t head,
               std::int64_t row = 0, std::int64_t element_bytes = kElementBytes) {
  using Byte = std::conditional_t<std::is_const_v<Data>, const std::byte, std::byte>;
  if (data == nullptr) return data;
  return static_cast<Byte*>(data) +
         (entry * strides.batch + head * strides.head + row * strides.row) * element_bytes;
}

/// Returns the address of an element; null for no array.
template <class Value>
Value* at_or_null(Value* data, std::int64_t index) {
  return data == nullptr ? nullptr : data + index;
}

}  // namespace fa2
