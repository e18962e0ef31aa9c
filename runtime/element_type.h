// Element types of tensors, and a kernel's access to them.
#pragma once

#include <cstdint>

namespace fa2 {

enum class ElementType : std::uint8_t { f16, bf16, f32, i32, byte };

constexpr int bytes_of(ElementType element) {
  if (element == ElementType::byte) return 1;
  return element == ElementType::f32 || element == ElementType::i32 ? 4 : 2;
}

/// `write`: the kernel never reads the old contents. `read_write`: the buffer has contents that it reads.
enum class Access : std::uint8_t { read, write, read_write };

}  // namespace fa2
