// Aligned columns and labelled lines.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <tools/table.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace fa2::tools {
namespace {

constexpr const char* kBold = "\x1b[1m";
constexpr const char* kPlain = "\x1b[0m";

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xc0u) == 0x80u;
}

/// In characters: paths and device names may be UTF-8.
std::size_t width_of(const std::string& cell) {
  return cell.size() - static_cast<std::size_t>(std::count_if(cell.begin(), cell.end(), is_continuation));
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20u || c == 0x7f;
}

std::string line_of(const std::vector<Column>& columns, const std::vector<std::size_t>& widths,
                    const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string padding(widths[i] - width_of(cells[i]), ' ');
    if (i > 0) line += "  ";
    line += columns[i].align == Align::right ? padding + cells[i] : cells[i] + padding;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

/// The lines of a value after the first start below it.
std::string indented(const std::string& value, std::size_t column) {
  std::string text;
  for (const char c : value) {
    text += c;
    if (c == '\n') text.append(column, ' ');
  }
  return text;
}

}  // namespace

void Table::add(std::vector<std::string> cells) {
  if (cells.size() != columns_.size()) {
    throw Error(ErrorCode::internal,
                fmt::format("{} cells for a table of {} columns", cells.size(), columns_.size()));
  }
  for (std::string& cell : cells) std::replace_if(cell.begin(), cell.end(), is_control, ' ');
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = width_of(columns_[i].title);
    for (const auto& row : rows_) width = std::max(width, width_of(row[i]));
    widths.push_back(width);
  }
  return widths;
}

std::string Table::text(bool bold_header) const {
  const std::vector<std::size_t> widths = this->widths();
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  const std::string header = line_of(columns_, widths, titles);
  std::string text = bold_header ? kBold + header + kPlain + "\n" : header + "\n";
  for (const auto& row : rows_) text += line_of(columns_, widths, row) + "\n";
  return text;
}

void print(const Table& table) {
  fmt::print("{}", table.text(isatty(STDOUT_FILENO) == 1));
}

std::string text(const Lines& lines) {
  std::size_t width = 0;
  for (const auto& [label, value] : lines) {
    if (!value.empty()) width = std::max(width, label.size());
  }
  std::string text;
  for (const auto& [label, value] : lines) {
    if (!value.empty()) text += fmt::format("{:<{}}  {}\n", label, width, indented(value, width + 2));
  }
  return text;
}

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr const char* kUnits[] = {"KB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1023.95 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string duration_text(double seconds) {
  if (seconds < 99.5) return fmt::format("{:.0f} s", seconds);
  if (seconds < 99.5 * 60) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

std::string us_text(double us) {
  return us > 0 ? fmt::format("{:.1f}", us) : "-";
}

}  // namespace fa2::tools
