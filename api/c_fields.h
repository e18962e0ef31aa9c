// Fields of the C interface's structs, read one by one.
#pragma once

#include <api/c_structs.h>
#include <core/enum_words.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>

namespace fa2 {

/// The sizes that versions of the interface published, ascending; the last is this library's.
template <class Struct>
inline constexpr std::array<std::size_t, 0> kSizes{};
template <>
inline constexpr std::array<std::size_t, 3> kSizes<fa2_problem>{96, 120, 136};
template <>
inline constexpr std::array<std::size_t, 5> kSizes<fa2_args>{176, 184, 216, 248, 264};
template <>
inline constexpr std::array<std::size_t, 2> kSizes<fa2_backward_args>{160, 168};
template <>
inline constexpr std::array<std::size_t, 1> kSizes<fa2_combine_problem>{56};
template <>
inline constexpr std::array<std::size_t, 1> kSizes<fa2_combine_args>{128};
template <>
inline constexpr std::array<std::size_t, 1> kSizes<fa2_context_options>{40};
template <>
inline constexpr std::array<std::size_t, 1> kSizes<fa2_plan_options>{8};
template <>
inline constexpr std::array<std::size_t, 4> kSizes<fa2_precompile_options>{24, 32, 40, 56};
template <>
inline constexpr std::array<std::size_t, 1> kSizes<fa2_tune_options>{16};
template <>
inline constexpr std::array<std::size_t, 1> kSizes<fa2_append_problem>{128};
template <>
inline constexpr std::array<std::size_t, 1> kSizes<fa2_append_args>{280};

// Far beyond what structs will grow to: a size that was never set is not followed through memory.
inline constexpr std::size_t kMostStructBytes = 4096;

/// Returns whether a struct of `size` bytes holds whole fields: a published version's, or a later one's.
template <class Struct>
bool has_sound_size(std::size_t size, const std::string& name, Found& found) {
  constexpr auto& sizes = kSizes<Struct>;
  static_assert(!sizes.empty() && sizes.back() == sizeof(Struct), "a struct that grows has one more size");
  const bool is_later = size > sizes.back() && size <= kMostStructBytes && size % alignof(Struct) == 0;
  if (is_later || std::ranges::find(sizes, size) != sizes.end()) return true;
  found.push_back({name, fmt::format("a struct with struct_size {}", size),
                   fmt::format("must have {}, or in a later version a multiple of {} up to {}: initialise it "
                               "with its _INIT macro",
                               fmt::join(sizes, ", "), alignof(Struct), kMostStructBytes)});
  return false;
}

/// The caller's struct as this library knows it: fields it lacks are 0, fields beyond ours must be 0.
template <class Struct>
std::optional<Struct> read_struct(const Struct* from, const std::string& name, Found& found) {
  constexpr std::size_t kSize = sizeof(Struct);
  static_assert(std::is_trivially_copyable_v<Struct>);
  if (!is_given(from, name, found)) return std::nullopt;
  const std::size_t size = from->struct_size;
  if (!has_sound_size<Struct>(size, name, found)) return std::nullopt;
  const unsigned char* bytes = reinterpret_cast<const unsigned char*>(from);
  if (size > kSize &&
      std::any_of(bytes + kSize, bytes + size, [](unsigned char byte) { return byte != 0; })) {
    found.push_back({name, fmt::format("a struct with struct_size {}", size),
                     fmt::format("must be 0 in the fields that fa2 {} does not know, from byte {} on",
                                 version(), kSize)});
  }
  Struct copy{};
  std::memcpy(&copy, bytes, std::min(size, kSize));
  return copy;
}

/// Enumerations travel as int32 and would wrap around in a cast: those out of range are entered in `found`.
template <class Enum>
Enum enum_of(std::int32_t value, const std::string& field, Found& found) {
  if (value >= 0 && value < static_cast<std::int32_t>(kEnumerators<Enum>)) return static_cast<Enum>(value);
  found.push_back({field, fmt::format("{}", value), rule_of<Enum>()});
  return Enum{};
}

/// Where 0 means "not chosen" and the enumeration starts at 1.
template <class Enum>
std::optional<Enum> choice_of(std::int32_t value, const char* field, Found& found) {
  if (value == 0) return std::nullopt;
  if (value > 0 && value <= static_cast<std::int32_t>(kEnumerators<Enum>))
    return static_cast<Enum>(value - 1);
  found.push_back({field, fmt::format("{}", value), fmt::format("must be in 0..{}", kEnumerators<Enum>)});
  return std::nullopt;
}

inline TensorStrides strides_of(const fa2_tensor& tensor) {
  return {tensor.strides[0], tensor.strides[1], tensor.strides[2]};
}

/// Fields that a later version may give a meaning.
inline void check_reserved(std::int32_t value, const std::string& field, Found& found) {
  if (value != 0) found.push_back({field, fmt::format("{}", value), "must be 0"});
}

inline bool flag_of(std::int32_t value, const std::string& field, Found& found) {
  if (value != 0 && value != 1) found.push_back({field, fmt::format("{}", value), "must be 0 or 1"});
  return value == 1;
}

}  // namespace fa2
