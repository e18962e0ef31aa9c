// What the elements of a tensor are, and what a kernel does with it.
#pragma once

#include <cstdint>

namespace fa2 {

enum class ElementType : std::uint8_t { f16, bf16, f32, i32, byte };

constexpr int bytes_of(ElementType element) {
  if (element == ElementType::byte) return 1;
  return element == ElementType::f32 || element == ElementType::i32 ? 4 : 2;
}

/// `write`: from nothing, what it holds before is never read. `read_write`: it holds something before.
enum class Access : std::uint8_t { read, write, read_write };

}  // namespace fa2
