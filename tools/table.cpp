// Aligned columns and labelled lines.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <tools/table.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace fa2::tools {
namespace {

constexpr const char* kBold = "\x1b[1m";
constexpr const char* kPlain = "\x1b[0m";

constexpr std::size_t kIndent = 4;  // of lines below a row

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20u || c == 0x7f;
}

std::string without_end(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
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

std::string Table::line_of(const Cells& cells, const std::vector<std::size_t>& widths, std::size_t width,
                           bool has_details) const {
  std::string text, line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (has_details && columns_[i].is_detail) continue;
    const std::string padding(widths[i] - width_of(cells[i]), ' ');
    const std::string cell = columns_[i].align == Align::right ? padding + cells[i] : cells[i] + padding;
    if (!line.empty() && width_of(line) + 2 + width_of(cell) > width) {
      text += without_end(line) + "\n";
      line = std::string(kIndent, ' ') + cell;
    } else {
      line += (line.empty() ? "" : "  ") + cell;
    }
  }
  return text + without_end(line);
}

std::string Table::details_of(const Cells& cells, std::size_t width) const {
  Lines lines;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (columns_[i].is_detail) lines.emplace_back(std::string(kIndent, ' ') + columns_[i].title, cells[i]);
  }
  return tools::text(lines, width);
}

std::string Table::text(bool bold_header, std::size_t width) const {
  const std::vector<std::size_t> widths = this->widths();
  Cells titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  const bool is_too_wide = std::accumulate(widths.begin(), widths.end(), 2 * (widths.size() - 1)) > width;
  const std::string header = line_of(titles, widths, width, is_too_wide);
  std::string text = bold_header ? kBold + header + kPlain + "\n" : header + "\n";
  for (const auto& row : rows_) {
    for (const std::string& line : wrapped(line_of(row, widths, width, is_too_wide), width))
      text += line + "\n";
    if (is_too_wide) text += details_of(row, width);
  }
  return text;
}

void print(const Table& table) {
  fmt::print("{}", table.text(isatty(STDOUT_FILENO) == 1, output_columns()));
}

std::string text(const Lines& lines, std::size_t width) {
  std::size_t label_width = 0;
  for (const auto& [label, value] : lines) {
    if (!value.empty()) label_width = std::max(label_width, label.size());
  }
  std::string text;
  for (const auto& [label, value] : lines) {
    if (!value.empty())
      text += fmt::format("{:<{}}  {}\n", label, label_width, hanging(value, width, label_width + 2));
  }
  return text;
}

void print(const Lines& lines) {
  fmt::print("{}", text(lines, output_columns()));
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
