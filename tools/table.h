// Plain text for people: aligned columns, labelled lines, sizes. ASCII only, the same in a terminal and in a
// pipe.
#pragma once

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
};
inline Column number(std::string title) {
  return {std::move(title), Align::right};
}

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// One cell a column. Control characters in cells become spaces.
  void add(std::vector<std::string> cells);

  /// Header and rows, columns two spaces apart, no trailing spaces, each line ended by a newline.
  std::string text(bool bold_header = false) const;

 private:
  std::vector<std::size_t> widths() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// To stdout; the header is bold if that is a terminal.
void print(const Table& table);

/// Label and value on each line, values below each other; lines without a value are left out.
using Lines = std::vector<std::pair<std::string, std::string>>;
std::string text(const Lines& lines);

/// How many digits of a kernel's key tables show.
inline constexpr std::size_t kShortKey = 8;

/// "812 B", "75.2 KB", "79.1 GB": powers of 1024.
std::string bytes_text(std::uint64_t bytes);

/// "45 s", "14 min", "2.5 h".
std::string duration_text(double seconds);

/// Microseconds: "436.8"; "-" for what was not measured.
std::string us_text(double us);

}  // namespace fa2::tools
