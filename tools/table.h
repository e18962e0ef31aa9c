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
  bool is_detail = false;  ///< in a table that is too wide, it gets a line of its own below the row
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

  /// Adds a row with one cell per column. Control characters become spaces.
  void add(std::vector<std::string> cells);

  /// Returns header and rows. Columns are two spaces apart, no line has trailing spaces, and each ends with a
  /// newline. If that needs more than `width`, details go below their rows, and longer rows break between
  /// cells.
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

/// Prints to stdout, within its width. On a terminal the header is bold.
void print(const Table& table);

/// One label and value per line. Values are aligned and wrapped; lines without a value are left out.
using Lines = std::vector<std::pair<std::string, std::string>>;
std::string text(const Lines& lines, std::size_t width = kAnyWidth);
/// Prints to stdout, within its width.
void print(const Lines& lines);

/// Digits of a kernel's key that tables show.
inline constexpr std::size_t kShortKey = 8;

/// Returns "812 B", "75.2 KB", "79.1 GB": powers of 1024.
std::string bytes_text(std::uint64_t bytes);

/// Returns "45 s", "14 min", "2.5 h".
std::string duration_text(double seconds);

/// Returns microseconds, "436.8"; "-" if not measured.
std::string us_text(double us);

}  // namespace fa2::tools
