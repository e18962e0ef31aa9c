// The byte layout that pack.cpp reads and pack_builder.cpp writes (runtime/pack.h describes it).
#pragma once

#include <runtime/pack.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace fa2::pack_layout {

inline constexpr std::string_view kMagic{"FA2PACK\0", 8};
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::size_t kCountedBytes = 16;  ///< magic, version, number of rows
inline constexpr std::size_t kHashBytes = 32;
inline constexpr std::size_t kHeaderBytes = kCountedBytes + kHashBytes;
inline constexpr std::size_t kNameBytes = 64;
inline constexpr std::size_t kRowBytes = kNameBytes + 3 * sizeof(std::uint64_t) + kHashBytes;

/// Appends `bytes` bytes of a number, the least significant first.
inline void append_number(std::string& text, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>((value >> (8 * i)) & 0xff);
}

/// Returns a number of `bytes` bytes at `offset`.
inline std::uint64_t number_at(std::string_view text, std::size_t offset, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    value |= std::uint64_t{static_cast<unsigned char>(text[offset + i])} << (8 * i);
  return value;
}

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace fa2::pack_layout
