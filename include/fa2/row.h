// Rows describe what the declaration of a public struct's member cannot say. Bindings for C and Python, flags and documents
// follow from them. Callers need none of this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace fa2 {

/// What the value of a problem's field decides.
///   specialises: the compiled kernel.
///   sizes: the grid, and the tuning record; never the kernel. The presence of an optional size specialises, its value does not.
enum class FieldRole : std::uint8_t { specialises, sizes };

/// Which stride of a tensor belongs to a dimension of this size; `other`: none; `no_tensor`: no tensor has the size.
enum class Axis : std::uint8_t { part, entry, head, row, column, other, no_tensor };

/// The words of a row. The compiler checks that names of other rows, and words of shapes, exist.
struct RowText {
  const char* name;              ///< name of the member; "dropout.seed" for a member of a member
  const char* tensor = nullptr;  ///< name of the tensor in bindings; null: `name`
  const char* option = "";       ///< name of the option in Python; "": there is none
  const char* help = "";         ///< one phrase for headers, flags and documents
  const char* shape = "";  ///< forms of a tensor: "(total_q, heads_q) if cu_seqlens_q | (batch, heads_q)"
  const char* used_if =
      "";  ///< a field of the problem; while it is 0 or false, the member must keep its default
  const char* with = "";         ///< a tensor without which this one must not be given
  const char* without = "";      ///< a tensor with which this one must not be given
  const char* like = "";         ///< a tensor whose element type this one must have
  const char* stride = "";       ///< the member that holds the distance between rows or parts; elements
  const char* second_form = "";  ///< the flag that says whether the tensor has its second form
  FieldRole role = FieldRole::specialises;
  Axis axis = Axis::other;
  std::int64_t least = 0;       ///< smallest value of a size: what tensors may give it; of an optional one
  bool is_optional = false;     ///< whether it may be null even if it is used
  bool is_packed = false;       ///< whether the tensor must be contiguous although `stride` is set
  const char* other_type = "";  ///< an element type that the tensor may have instead of the problem's dtype
  const char* type_field =
      "";  ///< the field of the problem that is true, or not its first enumerator, if it has that type
};

/// A row of one member. `beside` is the tensor's TensorStrides, or the member of a member that the row describes, or null.
template <class Member, class Beside>
struct Row {
  Member member;
  Beside beside;
  RowText text;

  constexpr Row help(const char* phrase) const { return with_text(&RowText::help, phrase); }
  constexpr Row option(const char* name) const { return with_text(&RowText::option, name); }
  constexpr Row tensor(const char* name) const { return with_text(&RowText::tensor, name); }
  constexpr Row shape(const char* forms) const { return with_text(&RowText::shape, forms); }
  constexpr Row used_if(const char* field) const { return with_text(&RowText::used_if, field); }
  constexpr Row with(const char* other) const { return with_text(&RowText::with, other); }
  constexpr Row without(const char* other) const { return with_text(&RowText::without, other); }
  constexpr Row like(const char* other) const { return with_text(&RowText::like, other); }
  constexpr Row stride(const char* other) const { return with_text(&RowText::stride, other); }
  constexpr Row second_form(const char* flag) const { return with_text(&RowText::second_form, flag); }
  constexpr Row sizes(Axis axis = Axis::other, std::int64_t least = 0) const {
    return with_text(&RowText::role, FieldRole::sizes)
        .with_text(&RowText::axis, axis)
        .with_text(&RowText::least, least);
  }
  constexpr Row along(Axis axis, std::int64_t least) const {
    return with_text(&RowText::axis, axis).with_text(&RowText::least, least);
  }
  constexpr Row optional() const { return with_text(&RowText::is_optional, true); }
  constexpr Row packed() const { return with_text(&RowText::is_packed, true); }
  constexpr Row or_type(const char* type, const char* field) const {
    return with_text(&RowText::other_type, type).with_text(&RowText::type_field, field);
  }

 private:
  template <class Value>
  constexpr Row with_text(Value RowText::*field, Value value) const {
    Row row = *this;
    row.text.*field = value;
    return row;
  }
};

template <class Struct, class Value>
constexpr Row<Value Struct::*, std::nullptr_t> row(const char* name, Value Struct::*member) {
  return {member, nullptr, {name}};
}
template <class Struct, class Value, class Other, class OtherValue>
constexpr Row<Value Struct::*, OtherValue Other::*> row(const char* name, Value Struct::*member,
                                                        OtherValue Other::*beside) {
  return {member, beside, {name}};
}

/// A row and its place.
template <std::size_t kIndex, class Row>
struct PlacedRow {
  Row row;
};

/// Rows in order. std::tuple would do, but takes seconds more of every file that names rows.
template <class Indices, class... Rows>
struct RowList;
template <std::size_t... kIndices, class... Rows>
struct RowList<std::index_sequence<kIndices...>, Rows...> : PlacedRow<kIndices, Rows>... {
  static constexpr std::size_t size = sizeof...(Rows);

  template <class Field>
  constexpr void each(Field& field) const {
    (field(static_cast<const PlacedRow<kIndices, Rows>&>(*this).row), ...);
  }
};

/// All rows of a struct.
template <class Struct>
inline constexpr auto kRowsOf = Struct::rows([](const auto&... rows) {
  return RowList<std::index_sequence_for<decltype(rows)...>, std::decay_t<decltype(rows)>...>{{rows}...};
});

/// Returns the row at a place of kRowsOf.
template <std::size_t kIndex, class Row>
constexpr const Row& row_at(const PlacedRow<kIndex, Row>& rows) {
  return rows.row;
}

/// Calls field(row) for each row of a struct, in order.
template <class Struct, class Field>
constexpr void each_row(Field&& field) {
  kRowsOf<Struct>.each(field);
}

}  // namespace fa2
