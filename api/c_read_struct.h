// Reads the structs of the C interface: checks struct_size, then converts the fields.
#pragma once

#include <api/c_structs.h>
#include <core/enum_words.h>
#include <fmt/format.h>
#include <operation/operands/rows.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>

namespace fa2 {

/// The sizes of a struct in published versions of the interface, ascending; the last is this library's.
template <class Struct>
inline constexpr std::array<std::size_t, 1> kSizes{sizeof(Struct)};

// Far more than structs will need. The bound protects memory behind a struct whose size was never set.
inline constexpr std::size_t kMostStructBytes = 4096;

/// Returns whether a struct of `size` bytes holds whole fields: a published version's, or a later one's.
template <class Struct>
bool has_known_size(std::size_t size, const std::string& name, Found& found) {
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

/// Returns a copy of the caller's struct in this library's version: missing fields are 0, and unknown ones must be 0.
template <class Struct>
std::optional<Struct> read_struct(const Struct* from, const std::string& name, Found& found) {
  constexpr std::size_t kSize = sizeof(Struct);
  static_assert(std::is_trivially_copyable_v<Struct>);
  if (!is_given(from, name, found)) return std::nullopt;
  const std::size_t size = from->struct_size;
  if (!has_known_size<Struct>(size, name, found)) return std::nullopt;
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

/// Converts an enumerator; adds a violation if it is out of range, where a cast would wrap around.
template <class Enum>
Enum enum_of(std::int32_t value, const std::string& field, Found& found) {
  if (value >= 0 && value < static_cast<std::int32_t>(kEnumerators<Enum>)) return static_cast<Enum>(value);
  found.push_back({field, fmt::format("{}", value), rule_of<Enum>()});
  return Enum{};
}

/// Converts an enumerator that C counts from 1; 0 means that it is not set.
template <class Enum>
std::optional<Enum> choice_of(std::int32_t value, const char* field, Found& found) {
  if (value == 0) return std::nullopt;
  if (value > 0 && value <= static_cast<std::int32_t>(kEnumerators<Enum>))
    return static_cast<Enum>(value - 1);
  found.push_back({field, fmt::format("{}", value), fmt::format("must be in 0..{}", kEnumerators<Enum>)});
  return std::nullopt;
}

/// Checks that a reserved field is 0, because a later version may give it a meaning.
inline void check_reserved(std::int32_t value, const std::string& field, Found& found) {
  if (value != 0) found.push_back({field, fmt::format("{}", value), "must be 0"});
}

inline bool flag_of(std::int32_t value, const std::string& field, Found& found) {
  if (value != 0 && value != 1) found.push_back({field, fmt::format("{}", value), "must be 0 or 1"});
  return value == 1;
}

template <class Value>
Value field_at(const void* from, std::uint16_t offset) {
  Value value;
  std::memcpy(&value, static_cast<const char*>(from) + offset,
              sizeof value);  // NOLINT: a pointer is copied as such
  return value;
}

/// Returns a public struct with the members of the C struct `from`, by their rows. The caller must convert a pointer to another
/// struct. `prefix` precedes the names of fields.
template <class Struct, class C>
Struct members_of(const C& from, const std::string& prefix, Found& found) {
  static_assert(sizeof(C) == kCStruct<Struct>.bytes,
                "fa2/c_call.h is not what rows say: fa2_write_files writes it");
  static_assert(member_count<Struct>() == described_count<Struct>(), "a member has no row");
  Struct made;
  each_index<Struct>([&](auto index) {
    constexpr const auto& row = row_at<index>(kRowsOf<Struct>);
    constexpr const Member& member = kCStruct<Struct>.members[index];
    auto& value = member_of(made, row);
    using Value = std::remove_reference_t<decltype(value)>;
    if constexpr (member.type == CType::tensor) {
      const auto tensor = field_at<fa2_tensor>(&from, member.field);
      value = static_cast<Value>(tensor.data);
      made.*row.beside = {tensor.strides[0], tensor.strides[1], tensor.strides[2]};
    } else if constexpr (std::is_enum_v<Value>) {
      value = enum_of<Value>(field_at<std::int32_t>(&from, member.field), prefix + row.text.name, found);
    } else if constexpr (std::is_same_v<Value, bool>) {
      value = field_at<std::int32_t>(&from, member.field) != 0;
    } else if constexpr (kIsOptional<Value>) {
      if (field_at<std::int32_t>(&from, member.presence) != 0)
        value = field_at<typename Value::value_type>(&from, member.field);
    } else if constexpr (member.type != CType::call) {
      value = field_at<Value>(&from, member.field);
    }
  });
  if constexpr (kCStruct<Struct>.reserved != kNowhere)
    check_reserved(field_at<std::int32_t>(&from, kCStruct<Struct>.reserved), prefix + "reserved", found);
  return made;
}

}  // namespace fa2
