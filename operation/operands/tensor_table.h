// The tensors of an operation as a table, made of rows at compile time: with parsed shapes, conditions and relations.
#pragma once

#include <operation/operands/rows.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace fa2 {

inline constexpr std::size_t kMostDimensions = 5;
inline constexpr std::size_t kMostTensors = 32;
inline constexpr std::size_t kMostSizes = 24;

/// Which strides a tensor may have, and what the C struct holds.
///   strided: any strides, except that the last dimension is contiguous; a fa2_tensor.
///   rows: contiguous rows with any distance between them; a pointer and one stride.
///   contiguous: a pointer, and one stride if there is a field for it.
enum class StrideRule : std::uint8_t { strided, rows, contiguous };

/// One extent of a shape: (size + plus) / over, where `size` is the index of a size; `plus` alone if `size` is negative.
struct Extent {
  std::int16_t size = -1, plus = 0, over = 1;
};

/// One form of a tensor's shape. It applies if tensor `if_given` is given and size `if_known` is known; negative: no condition.
struct Form {
  std::array<Extent, kMostDimensions> extents{};
  std::array<std::int16_t, 4> axes{-1, -1, -1,
                                   -1};  ///< dimensions of Axis::part, entry, head and row; -1: none
  std::int16_t rank = 0, if_given = -1, if_known = -1;
  bool ends_in_column = false;  ///< whether the last dimension is Axis::column
};

/// One tensor of an operation.
struct Tensor {
  std::array<Form, 3> forms{};
  std::int16_t form_count = 0, with = -1, without = -1, like = -1;  ///< indices of tensors; negative: none
  bool has_dtype = false;                                           ///< see Member
  ElementType element = ElementType::f16;                           ///< see Member
  /// Offset of the problem's flag for text.other_type, which this tensor sets unless the one that it is like is given; bytes.
  std::uint16_t type_field = kNowhere;
  StrideRule layout = StrideRule::contiguous;
  bool is_optional = false;
  bool is_written = false;
  bool is_elsewhere = false;             ///< whether it is a member of the second of two argument structs
  std::uint8_t row = 0;                  ///< index of its row
  std::uint16_t field = kNowhere;        ///< offset in the C struct; bytes
  std::uint16_t stride = kNowhere;       ///< offset of the stride of parts or rows; bytes
  std::uint16_t second_form = kNowhere;  ///< offset of the flag that says whether it has forms[1]; bytes
  RowText text = {};

  constexpr std::string_view name() const { return text.tensor != nullptr ? text.tensor : text.name; }
};

/// A size that shapes name: a field of the problem, or a word that only shapes have.
struct Size {
  std::string_view name;
  Axis axis = Axis::other;
  std::int64_t least = 0;          ///< smallest value that tensors may give it
  std::uint16_t field = kNowhere;  ///< offset in the C struct; bytes
  std::uint16_t bytes = 8;         ///< size of the field; 4 or 8

  constexpr std::int64_t most() const {
    return bytes == 4 ? std::numeric_limits<std::int32_t>::max() : std::numeric_limits<std::int64_t>::max();
  }
};

/// A flag of the problem that is true if at least one of `tensors` is given.
struct TensorFlag {
  std::uint16_t field = kNowhere;  ///< offset in the C struct; bytes
  std::uint32_t tensors = 0;       ///< one bit per index of a tensor
};

/// A vector of at most kMost items, for constants.
template <class Item, std::size_t kMost>
struct List {
  std::array<Item, kMost> items{};
  std::size_t count = 0;

  constexpr void add(const Item& item) { items[count++] = item; }
  constexpr std::size_t size() const { return count; }
  constexpr const Item& operator[](std::size_t i) const { return items[i]; }
  constexpr Item& operator[](std::size_t i) { return items[i]; }
  constexpr const Item* begin() const { return items.data(); }
  constexpr const Item* end() const { return items.data() + count; }
};

/// The sizes and tensors of an operation.
struct TensorTable {
  List<Size, kMostSizes> sizes;
  List<Tensor, kMostTensors> tensors;
  List<TensorFlag, 8> flags;
  std::uint16_t dtype = kNowhere;  ///< offset of the problem's dtype in the C struct; bytes
  std::uint32_t required = 0;      ///< tensors that every call must give; one bit per index
  std::uint32_t related = 0;       ///< tensors with `with` or `without`; one bit per index

  /// Returns the index of a size; -1 if there is none.
  constexpr std::int16_t size_index(std::string_view name) const {
    for (std::size_t i = 0; i < sizes.count; ++i)
      if (sizes[i].name == name) return static_cast<std::int16_t>(i);
    return -1;
  }
  /// Returns the index of the tensor whose member has this name; -1 if there is none.
  constexpr std::int16_t tensor_index(std::string_view name) const {
    for (std::size_t i = 0; i < tensors.count; ++i)
      if (tensors[i].text.name == name) return static_cast<std::int16_t>(i);
    return -1;
  }
  /// Returns the tensor whose member has this name. Does not compile if there is none.
  constexpr Tensor& tensor(std::string_view name) {
    if (tensor_index(name) < 0) throw "no tensor has this name";
    return tensors[static_cast<std::size_t>(tensor_index(name))];
  }
};

// ---- shapes in words: an unknown word does not compile ----

constexpr std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '(')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == ')')) text.remove_suffix(1);
  return text;
}

/// Removes the text before `mark`, and `mark` itself, and returns that text. Takes all of `text` if it has no `mark`.
constexpr std::string_view take_until(std::string_view& text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  const std::string_view taken = text.substr(0, at);
  text = at == text.npos ? std::string_view() : text.substr(at + mark.size());
  return trimmed(taken);
}

constexpr std::int16_t digit_of(std::string_view text) {
  if (text.size() != 1 || text[0] < '1' || text[0] > '9') throw "a number must have one digit";
  return static_cast<std::int16_t>(text[0] - '0');
}

constexpr Extent extent_of(std::string_view text, const TensorTable& table) {
  Extent extent;
  if (text[0] >= '0' && text[0] <= '9') return {-1, digit_of(text), 1};
  const std::size_t sign = text.find_first_of("+/");
  if (sign != text.npos)
    (text[sign] == '+' ? extent.plus : extent.over) = digit_of(trimmed(text.substr(sign + 1)));
  extent.size = table.size_index(trimmed(text.substr(0, sign)));
  if (extent.size < 0) throw "the problem has no such size";
  return extent;
}

constexpr Form form_of(std::string_view text, const TensorTable& table) {
  Form form;
  std::string_view extents = take_until(text, " if ");
  if (!text.empty()) {
    form.if_given = table.tensor_index(trimmed(text));
    if (form.if_given < 0) form.if_known = table.size_index(trimmed(text));
    if (form.if_given < 0 && form.if_known < 0) throw "there is no such condition";
  }
  while (!extents.empty()) {
    const Extent extent = extent_of(take_until(extents, ","), table);
    Axis axis = extent.size < 0 ? Axis::other : table.sizes[static_cast<std::size_t>(extent.size)].axis;
    // The second of two rows, as in (seqlen_q, seqlen_k), is a column: it has no stride of its own.
    if (axis < Axis::column && form.axes[static_cast<std::size_t>(axis)] >= 0) axis = Axis::column;
    form.ends_in_column = axis == Axis::column;
    if (axis < Axis::column) form.axes[static_cast<std::size_t>(axis)] = form.rank;
    form.extents[static_cast<std::size_t>(form.rank++)] = extent;
  }
  return form;
}

// ---- tables of rows ----

/// Returns a table of the problem's integers, without tensors.
template <class Problem>
constexpr TensorTable sizes_of() {
  TensorTable table;
  table.dtype = kCStruct<Problem>.members[row_index<Problem>("dtype")].field;
  for (const Member& member : kCStruct<Problem>.members)
    if (member.is_size)
      table.sizes.add(
          {member.text.name, member.text.axis, member.text.least, member.field, bytes_of(member.type)});
  return table;
}

template <class Args>
constexpr std::uint16_t offset_of(const char* name) {
  return *name == 0 ? kNowhere : kCStruct<Args>.members[row_index<Args>(name)].field;
}

template <class Args>
constexpr Tensor tensor_of(std::size_t row) {
  const Member& member = kCStruct<Args>.members[row];
  const RowText& text = member.text;
  Tensor tensor{.has_dtype = member.has_dtype,
                .element = member.element,
                .row = static_cast<std::uint8_t>(row),
                .field = member.field,
                .text = text};
  if (member.type == CType::tensor)
    tensor.layout = StrideRule::strided;
  else if (*text.stride != 0 && !text.is_packed)
    tensor.layout = StrideRule::rows;
  tensor.is_optional = text.is_optional || (*text.used_if != 0 && *text.with == 0);
  tensor.is_written = !member.is_const;
  tensor.stride = offset_of<Args>(text.stride);
  tensor.second_form = offset_of<Args>(text.second_form);
  return tensor;
}

/// Adds the tensors of Args: the members whose rows have a shape.
template <class Problem, class Args>
constexpr void add_tensors(TensorTable& table, bool is_elsewhere = false) {
  for (std::size_t i = 0; i < kRowCount<Args>; ++i) {
    if (*kCStruct<Args>.members[i].text.shape == 0) continue;
    Tensor tensor = tensor_of<Args>(i);
    tensor.is_elsewhere = is_elsewhere;
    if (*tensor.text.type_field != 0) tensor.type_field = offset_of<Problem>(tensor.text.type_field);
    table.tensors.add(tensor);
  }
}

/// Returns whether `field` is `goal`, or its used_if leads to `goal`.
template <class Problem>
constexpr bool needs(std::string_view field, std::string_view goal) {
  while (!field.empty() && field != goal)
    field = kCStruct<Problem>.members[row_index<Problem>(field)].text.used_if;
  return field == goal;
}

/// Adds the flags that follow from tensors alone. If a number needs a flag too, the caller must set it.
template <class Problem, class Args>
constexpr void add_flags(TensorTable& table) {
  for (const Member& flag : kCStruct<Problem>.members) {
    std::uint32_t tensors = 0;
    bool is_callers = false;
    for (std::size_t i = 0; i < table.tensors.count; ++i)
      tensors |= flag.is_flag && needs<Problem>(table.tensors[i].text.used_if, flag.text.name) ? 1u << i : 0;
    for (const Member& member : kCStruct<Args>.members)
      is_callers |= !member.is_pointer && needs<Problem>(member.text.used_if, flag.text.name);
    if (tensors != 0 && !is_callers) table.flags.add({flag.field, tensors});
  }
}

constexpr std::int16_t related_index(const char* name, const TensorTable& table) {
  const std::int16_t index = table.tensor_index(name);
  if (*name != 0 && index < 0) throw "no tensor has this name";
  return index;
}

/// Returns the table with parsed shapes and with indices for names. Nothing may be added afterwards.
constexpr TensorTable finished(TensorTable table) {
  for (std::size_t i = 0; i < table.tensors.count; ++i) {
    Tensor& tensor = table.tensors[i];
    std::string_view forms = tensor.text.shape;
    while (!forms.empty())
      tensor.forms[static_cast<std::size_t>(tensor.form_count++)] = form_of(take_until(forms, "|"), table);
    tensor.with = related_index(tensor.text.with, table);
    tensor.without = related_index(tensor.text.without, table);
    tensor.like = related_index(tensor.text.like, table);
    const bool is_related = tensor.with >= 0 || tensor.without >= 0;
    if (is_related) table.related |= 1u << i;
    if (!is_related && !tensor.is_optional) table.required |= 1u << i;
  }
  return table;
}

}  // namespace fa2
