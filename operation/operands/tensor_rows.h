// Tables of an operation's tensors: a row each says dtype, shape in words of the problem, and where it goes in arguments.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

namespace fa2 {

inline constexpr std::size_t kMostDimensions = 5;
inline constexpr std::size_t kMostRows = 24;
inline constexpr std::size_t kMostSizes = 16;
inline constexpr std::uint16_t kNowhere = 0xffff;

/// The stride of arguments that a dimension of this size gives. `other`: none.
enum class Axis : std::uint8_t { part, entry, head, row, column, other };

/// A size of the problem.
struct SizeRow {
  std::string_view name;
  Axis axis = Axis::other;
  std::int64_t least = 0;          ///< where 0 would mean something else to the problem: 1
  std::uint16_t field = kNowhere;  ///< its offset in the problem
  std::uint8_t bytes = 8;          ///< of that field, 4 or 8

  constexpr std::int64_t most() const {
    return bytes == 4 ? std::numeric_limits<std::int32_t>::max() : std::numeric_limits<std::int64_t>::max();
  }
};

/// half: float16 or bfloat16, the same for all. half_or_f32: of one tensor its own choice.
enum class Element : std::uint8_t { half, half_or_f32, f32, i32, i64, u8 };

/// strided: any strides but in the last column, which is contiguous; goes to a fa2_tensor.
/// rows: contiguous rows that may lie apart; goes to a pointer and one stride.
/// contiguous: goes to a pointer, and one stride if there is a field for it.
enum class Layout : std::uint8_t { strided, rows, contiguous };

/// A row as it is written. Shapes: "(total_q, heads_q) if cu_seqlens_q | (batch + 1)"; a condition is a tensor that is
/// given, or a size that is known by then. Rows are read in order.
struct TensorText {
  std::string_view name, shape;
  Element element = Element::half;
  Layout layout = Layout::strided;
  bool optional = false;
  bool written = false;
  bool elsewhere = false;           ///< goes to the second of the two structs of arguments
  std::uint16_t field = kNowhere;   ///< offset of the pointer or fa2_tensor
  std::uint16_t stride = kNowhere;  ///< offset of the stride of parts, or of rows
  std::string_view with = {};       ///< must not be given without that tensor; required then, unless optional
  std::string_view without = {};    ///< must not be given beside that tensor
  std::string_view like = {};       ///< has that tensor's element type
};

/// An extent is (size + plus) / over; a plain number if `size` is negative.
struct Extent {
  std::int16_t size = -1, plus = 0, over = 1;
};

/// One form of a tensor's shape. Conditions are numbers of rows or sizes; negative: none.
struct Form {
  std::array<Extent, kMostDimensions> extents{};
  std::array<std::int16_t, 4> axes{-1, -1, -1, -1};  ///< dimensions of Axis::part, entry, head and row
  std::int16_t rank = 0, if_given = -1, if_known = -1;
  bool ends_in_column = false;
};

struct TensorRow {
  std::array<Form, 3> forms{};
  std::int16_t form_count = 0, with = -1, without = -1, like = -1;
};

/// All tensors of an operation.
struct TensorTable {
  std::span<const SizeRow> sizes;
  std::span<const TensorText> texts;
  std::span<const TensorRow> rows;
  std::uint32_t required = 0;  ///< bits of rows that every call gives
  std::uint32_t related = 0;   ///< bits of rows that other tensors require or exclude
};

// ---- reading rows, when the library is compiled: a word that nothing is called does not compile ----

template <class Rows>
constexpr std::int16_t index_of(std::string_view name, const Rows& rows) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].name == name) return static_cast<std::int16_t>(i);
  return -1;
}

constexpr std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '(')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == ')')) text.remove_suffix(1);
  return text;
}

/// Cuts off what comes before `mark`, which goes too; all of `text` if it is not there.
constexpr std::string_view take_until(std::string_view& text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  const std::string_view taken = text.substr(0, at);
  text = at == text.npos ? std::string_view() : text.substr(at + mark.size());
  return trimmed(taken);
}

constexpr std::int16_t digit_of(std::string_view text) {
  if (text.size() != 1 || text[0] < '1' || text[0] > '9') throw "a number of one digit is meant";
  return static_cast<std::int16_t>(text[0] - '0');
}

constexpr Extent extent_of(std::string_view text, std::span<const SizeRow> sizes) {
  Extent extent;
  if (text[0] >= '0' && text[0] <= '9') return {-1, digit_of(text), 1};
  const std::size_t sign = text.find_first_of("+/");
  if (sign != text.npos) {
    const std::int16_t number = digit_of(trimmed(text.substr(sign + 1)));
    (text[sign] == '+' ? extent.plus : extent.over) = number;
  }
  extent.size = index_of(trimmed(text.substr(0, sign)), sizes);
  if (extent.size < 0) throw "the problem has no such size";
  return extent;
}

constexpr Form form_of(std::string_view text, std::span<const SizeRow> sizes,
                       std::span<const TensorText> texts) {
  Form form;
  std::string_view extents = take_until(text, " if ");
  if (!text.empty()) {
    form.if_given = index_of(trimmed(text), texts);
    if (form.if_given < 0) form.if_known = index_of(trimmed(text), sizes);
    if (form.if_given < 0 && form.if_known < 0) throw "there is no such condition";
  }
  while (!extents.empty()) {
    const Extent extent = extent_of(take_until(extents, ","), sizes);
    const Axis axis = extent.size < 0 ? Axis::other : sizes[static_cast<std::size_t>(extent.size)].axis;
    form.ends_in_column = axis == Axis::column;
    if (axis < Axis::column) form.axes[static_cast<std::size_t>(axis)] = form.rank;
    form.extents[static_cast<std::size_t>(form.rank++)] = extent;
  }
  return form;
}

constexpr std::int16_t other_row(std::string_view name, std::span<const TensorText> texts) {
  if (!name.empty() && index_of(name, texts) < 0) throw "there is no such tensor";
  return name.empty() ? std::int16_t{-1} : index_of(name, texts);
}

constexpr TensorRow row_of(const TensorText& text, std::span<const SizeRow> sizes,
                           std::span<const TensorText> texts) {
  TensorRow row;
  std::string_view forms = text.shape;
  while (!forms.empty())
    row.forms[static_cast<std::size_t>(row.form_count++)] = form_of(take_until(forms, "|"), sizes, texts);
  row.with = other_row(text.with, texts);
  row.without = other_row(text.without, texts);
  row.like = other_row(text.like, texts);
  return row;
}

template <std::size_t kSizes, std::size_t kCount>
constexpr std::array<TensorRow, kCount> rows_of(const std::array<TensorText, kCount>& texts,
                                                const std::array<SizeRow, kSizes>& sizes) {
  static_assert(kCount <= kMostRows && kSizes <= kMostSizes);
  std::array<TensorRow, kCount> rows{};
  for (std::size_t i = 0; i < kCount; ++i) rows[i] = row_of(texts[i], sizes, texts);
  return rows;
}

constexpr TensorTable table_of(std::span<const SizeRow> sizes, std::span<const TensorText> texts,
                               std::span<const TensorRow> rows) {
  TensorTable table{sizes, texts, rows};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const bool is_related = rows[i].with >= 0 || rows[i].without >= 0;
    if (is_related) table.related |= 1u << i;
    if (!is_related && !texts[i].optional) table.required |= 1u << i;
  }
  return table;
}

}  // namespace fa2
