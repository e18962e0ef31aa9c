// Plain text for people: aligned columns, labelled lines, sizes. ASCII only.
#pragma once

#include <tools/wrap.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace fa2::tools {

enum class Align : std::uint8_t { left, right };

struct Column {
  std::string title;
  Align align = Align::left;
  bool is_detail = false;  ///< in a table that is too wide, a line of its own below the row
};
inline Column number(std::string title) {
  return {std::move(title), Align::right};
}
inline Column detail(std::string title) {
  return {std::move(title), Align::left, true};
}

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// One cell a column. Control characters in cells become spaces.
  void add(std::vector<std::string> cells);

  /// Header and rows, columns two spaces apart, no trailing spaces, each line ended by a newline. Where that needs more than `width`,
  /// details go below their rows, and rows that are still too long are broken between cells.
  std::string text(bool bold_header = false, std::size_t width = kAnyWidth) const;

 private:
  using Cells = std::vector<std::string>;

  std::vector<std::size_t> widths() const;
  std::string line_of(const Cells& cells, const std::vector<std::size_t>& widths, std::size_t width,
                      bool has_details) const;
  std::string details_of(const Cells& cells, std::size_t width) const;

  std::vector<Column> columns_;
  std::vector<Cells> rows_;
};

/// To stdout, in its columns; the header is bold if it is a terminal.
void print(const Table& table);

/// Label and value on each line, values below each other and wrapped; lines without a value are left out.
using Lines = std::vector<std::pair<std::string, std::string>>;
std::string text(const Lines& lines, std::size_t width = kAnyWidth);
/// To stdout, in its columns.
void print(const Lines& lines);

/// How many digits of a kernel's key tables show.
inline constexpr std::size_t kShortKey = 8;

/// "812 B", "75.2 KB", "79.1 GB": powers of 1024.
std::string bytes_text(std::uint64_t bytes);

/// "45 s", "14 min", "2.5 h".
std::string duration_text(double seconds);

/// Microseconds: "436.8"; "-" for what was not measured.
std::string us_text(double us);

}  // namespace fa2::tools
