// Line wrapping.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <runtime/env.h>
#include <sys/ioctl.h>
#include <tools/wrap.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace fa2::tools {
namespace {

constexpr std::size_t kLeastWidth = 20;  // below it, labels and values do not fit next to each other

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xc0u) == 0x80u;
}

std::optional<std::size_t> columns_variable() {
  const std::string text = env("COLUMNS").value_or("");
  std::size_t columns = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), columns);
  if (error != std::errc() || end != text.data() + text.size() || columns == 0) return std::nullopt;
  return columns;
}

/// Returns how many bytes of `line` precede the break. The line must be longer than `width` and not begin
/// with a space.
std::size_t break_of(std::string_view line, std::size_t width) {
  std::size_t at_space = 0, behind_mark = 0, end = 0, columns = 0;
  for (; end < line.size(); ++end) {
    if (!is_continuation(line[end])) ++columns;
    if (line[end] == ' ') at_space = end;
    if (columns > width) break;
    if (std::string_view(",/=:").find(line[end]) != std::string_view::npos) behind_mark = end + 1;
  }
  if (at_space > 0) return at_space;
  return behind_mark > 0 ? behind_mark : end;
}

/// Appends the parts of one line. Each begins with the spaces that begin the line.
void append_parts(std::string_view line, std::size_t width, std::vector<std::string>& parts) {
  std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
  if (indent > width / 2) indent = 0;
  const std::string spaces(indent, ' ');
  line.remove_prefix(indent);
  while (width_of(line) > width - indent) {
    const std::size_t end = break_of(line, width - indent);
    parts.push_back(spaces + std::string(line.substr(0, end)));
    line.remove_prefix(end);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  }
  parts.push_back(spaces + std::string(line));
}

}  // namespace

std::size_t output_columns() {
  if (const auto columns = columns_variable()) return std::max(*columns, kLeastWidth);
  winsize size{};
  const bool is_terminal = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_terminal ? std::max<std::size_t>(size.ws_col, kLeastWidth) : kAnyWidth;
}

std::size_t width_of(std::string_view text) {
  return text.size() - static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_continuation));
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  for (bool is_last = false; !is_last;) {
    const std::size_t newline = text.find('\n');
    is_last = newline == std::string_view::npos;
    append_parts(text.substr(0, newline), width, lines);
    text.remove_prefix(is_last ? text.size() : newline + 1);
  }
  return lines;
}

std::string hanging(std::string_view text, std::size_t width, std::size_t indent) {
  const std::size_t rest =
      width == kAnyWidth ? kAnyWidth : std::max(width, indent + kLeastWidth / 2) - indent;
  return fmt::format("{}", fmt::join(wrapped(text, rest), "\n" + std::string(indent, ' ')));
}

void print_paragraph(std::string_view text) {
  fmt::print("{}\n", hanging(text, output_columns(), 0));
}

}  // namespace fa2::tools
