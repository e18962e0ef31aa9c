// Tables of the rows of public structs, made at compile time. They add what a member's type says, and its place in the C struct.
#pragma once

#include <core/element_type.h>
#include <fa2/args.h>
#include <fa2/row.h>
#include <generator/kernel_spec.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

namespace fa2 {

inline constexpr std::uint16_t kNowhere = 0xffff;  ///< the offset of a field that does not exist

/// The type of a field of a C struct. `tensor`: fa2_tensor. `call`: a pointer to another struct. `captures`: a pointer to several
/// fa2_capture. `gradients`: a pointer to several pointers to floats.
enum class CType : std::uint8_t {
  int32,
  float32,
  int64,
  uint64,
  pointer,
  tensor,
  call,
  captures,
  block_map,
  gradients
};

constexpr std::uint16_t bytes_of(CType type) {
  return type == CType::tensor ? 32 : type == CType::int32 || type == CType::float32 ? 4 : 8;
}

/// A row, and what the compiler knows of its member.
struct Member {
  RowText text;
  CType type = CType::int32;
  bool has_dtype = false;  ///< whether it points to elements of the problem's dtype, or of text.other_type
  ElementType element = ElementType::f16;  ///< the element type that it points to, if not has_dtype
  bool is_pointer = false;
  bool is_const = false;  ///< whether calls only read what the pointer points to
  bool is_flag = false;   ///< whether it is a bool
  bool is_size = false;   ///< whether it is a signed integer that tensors may have as a size
  bool is_optional_value =
      false;  ///< whether it is a std::optional, whose presence has its own field in a C struct
  std::uint16_t field = kNowhere;     ///< offset in the C struct; bytes
  std::uint16_t presence = kNowhere;  ///< offset of has_NAME in the C struct; bytes
};

template <class Value>
constexpr CType c_type_of() {
  if constexpr (kIsOptional<Value>) {
    return c_type_of<typename Value::value_type>();
  } else if constexpr (std::is_same_v<Value, const ScoreCapture*>) {
    return CType::captures;
  } else if constexpr (std::is_same_v<Value, const BlockMap*>) {
    return CType::block_map;
  } else if constexpr (std::is_same_v<Value, float* const*>) {
    return CType::gradients;
  } else if constexpr (std::is_pointer_v<Value>) {
    return CType::pointer;
  } else if constexpr (std::is_class_v<Value>) {
    return CType::call;
  } else if constexpr (std::is_same_v<Value, float>) {
    return CType::float32;
  } else if constexpr (sizeof(Value) == 8) {
    return std::is_signed_v<Value> ? CType::int64 : CType::uint64;
  } else {
    return CType::int32;
  }
}

template <class Pointed>
constexpr ElementType pointed_element() {
  if (std::is_same_v<Pointed, const float> || std::is_same_v<Pointed, float>) return ElementType::f32;
  return std::is_same_v<Pointed, const std::int32_t> ? ElementType::i32 : ElementType::i64;
}

template <class Row>
inline constexpr bool kHasStrides = false;
template <class Struct, class Value>
inline constexpr bool kHasStrides<Row<Value, TensorStrides Struct::*>> = true;

/// Returns the member of `made` that the row describes.
template <class Struct, class Value, class Beside>
constexpr auto& member_of(Struct& made, const Row<Value, Beside>& row) {
  if constexpr (kHasStrides<Row<Value, Beside>> || std::is_null_pointer_v<Beside>) {
    return made.*row.member;
  } else {
    return made.*row.member.*row.beside;
  }
}

template <class Struct, class Row>
using MemberType =
    std::remove_cvref_t<decltype(member_of(std::declval<Struct&>(), std::declval<const Row&>()))>;

template <class Struct, class Row>
constexpr Member typed(const Row& row) {
  using Value = MemberType<Struct, Row>;
  Member member{.text = row.text, .type = kHasStrides<Row> ? CType::tensor : c_type_of<Value>()};
  member.is_flag = std::is_same_v<Value, bool>;
  member.is_size = std::is_integral_v<Value> && std::is_signed_v<Value> && !member.is_flag &&
                   row.text.axis != Axis::no_tensor;
  member.is_optional_value = kIsOptional<Value>;
  member.is_pointer = std::is_pointer_v<Value>;
  if constexpr (c_type_of<Value>() == CType::pointer) {
    using Pointed = std::remove_pointer_t<Value>;
    member.is_const = std::is_const_v<Pointed>;
    member.has_dtype = std::is_void_v<Pointed>;
    member.element = pointed_element<Pointed>();
  }
  return member;
}

template <class Struct>
inline constexpr std::size_t kRowCount = kRowsOf<Struct>.size;

/// A placeholder that converts to the type of any member.
struct AnyValue {
  template <class Value>
  operator Value() const;
};

template <class Struct, class... Values>
constexpr std::size_t member_count() {
  if constexpr (requires { Struct{Values()..., AnyValue()}; }) {
    return member_count<Struct, Values..., AnyValue>();
  } else {
    return sizeof...(Values);
  }
}

/// Returns the number of members that rows describe, including their strides. A member whose members have rows counts once.
template <class Struct>
constexpr std::size_t described_count() {
  std::array<std::string_view, kRowCount<Struct>> seen{};
  std::size_t count = 0, next = 0;
  each_row<Struct>([&](const auto& row) {
    const std::string_view name = row.text.name, member = name.substr(0, name.find('.'));
    const bool is_new = std::find(seen.begin(), seen.end(), member) == seen.end();
    count += is_new + kHasStrides<std::remove_cvref_t<decltype(row)>>;
    seen[next++] = member;
  });
  return count;
}

/// The layout of a C struct: struct_size, then all 4-byte fields, then `reserved` if 8-byte alignment needs it, then all other
/// fields.
template <std::size_t kCount>
struct CStruct {
  std::array<Member, kCount> members{};
  std::uint16_t reserved = kNowhere;  ///< offset of `reserved`; bytes
  std::uint16_t bytes = 4;            ///< size of the fields so far

  /// Appends a field of `size` bytes and returns its offset.
  constexpr std::uint16_t take(std::uint16_t size) {
    bytes = static_cast<std::uint16_t>(bytes + size);
    return static_cast<std::uint16_t>(bytes - size);
  }
};

template <class Struct>
constexpr CStruct<kRowCount<Struct>> c_struct_of() {
  CStruct<kRowCount<Struct>> made;
  std::size_t next = 0;
  each_row<Struct>([&](const auto& row) { made.members[next++] = typed<Struct>(row); });
  for (Member& member : made.members) {
    if (member.is_optional_value) member.presence = made.take(4);
    if (bytes_of(member.type) == 4) member.field = made.take(4);
  }
  if (made.bytes % 8 != 0) made.reserved = made.take(4);
  for (Member& member : made.members)
    if (bytes_of(member.type) != 4) member.field = made.take(bytes_of(member.type));
  return made;
}

template <class Struct>
inline constexpr auto kCStruct = c_struct_of<Struct>();

/// Returns the index of the row with this name. Does not compile if there is none.
template <class Struct>
constexpr std::size_t row_index(std::string_view name) {
  for (std::size_t i = 0; i < kRowCount<Struct>; ++i)
    if (kCStruct<Struct>.members[i].text.name == name) return i;
  throw "no row has this name";
}

/// Calls field(i) for the index of each row; `i` is a std::integral_constant.
template <class Struct, class Field>
constexpr void each_index(const Field& field) {
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    (field(std::integral_constant<std::size_t, i>()), ...);
  }
  (std::make_index_sequence<kRowCount<Struct>>());
}

/// Returns whether a field of a problem is true, above 0 or not its first enumerator.
template <class Value>
constexpr bool is_set(const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return value != Value{};
  } else {
    return value > 0;
  }
}

/// Returns whether `problem` uses the member of row `kIndex`: whether the field that its used_if names is set.
template <class Args, std::size_t kIndex, class Problem>
constexpr bool is_used(const Problem& problem) {
  constexpr const char* name = row_at<kIndex>(kRowsOf<Args>).text.used_if;
  if constexpr (*name == 0) {
    return true;
  } else {
    constexpr std::size_t field = row_index<Problem>(name);
    return is_set(member_of(problem, row_at<field>(kRowsOf<Problem>)));
  }
}

/// Calls number(variant, name, is_used, value...) for each number of a variant. `variant` names the problem's field, `name` the
/// member of `args`. `value` is a float, which must be above 0 if used; or a pointer to one number per query head, followed by a
/// bool if there may be one per batch entry too.
template <class Number, class Args>
constexpr void visit_numbers(const Number& number, const AttentionProblem& problem, Args& args) {
  each_index<AttentionArgs>([&](auto index) {
    constexpr auto& row = row_at<index>(kRowsOf<AttentionArgs>);
    using Value = MemberType<AttentionArgs, std::remove_cvref_t<decltype(row)>>;
    constexpr bool is_nested = std::string_view(row.text.name).find('.') != std::string_view::npos;
    if constexpr (*row.text.used_if != 0 && !is_nested && !kHasStrides<std::remove_cvref_t<decltype(row)>> &&
                  (std::is_same_v<Value, float> || std::is_same_v<Value, const float*>)) {
      const bool used = is_used<AttentionArgs, index>(problem);
      if constexpr (*row.text.second_form != 0) {
        constexpr std::size_t flag = row_index<AttentionArgs>(row.text.second_form);
        number(row.text.used_if, row.text.name, used, args.*row.member,
               member_of(args, row_at<flag>(kRowsOf<AttentionArgs>)));
      } else {
        number(row.text.used_if, row.text.name, used, args.*row.member);
      }
    }
  });
}

}  // namespace fa2
