// Help that fits a terminal of 80 columns.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tools/help.h>
#include <tools/wrap.h>

#include <string_view>
#include <vector>

namespace fa2::tools {
namespace {

constexpr std::size_t kOptionColumn = 30, kVerbColumn = 14;
constexpr std::size_t kOptionWidth = kHelpWidth - 2;  // CLI11 indents options of a group once more

/// Returns a name and its description, which starts at `column`, next to the name if there is room.
std::string entry(const std::string& name, const std::string& description, std::size_t column) {
  std::string line = hanging("  " + name, kOptionWidth, 6);
  const std::string text = hanging(description, kOptionWidth, column);
  if (text.empty()) return line + "\n";
  if (line.size() >= column) return line + "\n" + std::string(column, ' ') + text + "\n";
  line.resize(column, ' ');
  return line + text + "\n";
}

/// Returns a wrapped line of an example. Lines begin with two spaces; a broken command continues after a
/// backslash.
std::string example(std::string_view line) {
  constexpr std::string_view kStart = "  ";
  const std::vector<std::string> parts = wrapped(line.substr(kStart.size()), kHelpWidth - 8);
  const bool is_command = line.starts_with("  fa2 ");
  return fmt::format("{}{}", kStart, fmt::join(parts, is_command ? " \\\n      " : "\n    "));
}

}  // namespace

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  return entry(make_option_name(option, is_positional) + make_option_opts(option), make_option_desc(option),
               kOptionColumn);
}

std::string HelpFormatter::make_subcommand(const CLI::App* verb) const {
  return entry(verb->get_name(), verb->get_description(), kVerbColumn);
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return hanging(CLI::Formatter::make_description(app), kHelpWidth, 0);
}

std::string HelpFormatter::make_footer(const CLI::App* app) const {
  std::string footer;
  for (const std::string& line : wrapped(CLI::Formatter::make_footer(app), kAnyWidth)) {
    const bool fits = width_of(line) <= kHelpWidth;
    footer += fits ? line : line.starts_with("  ") ? example(line) : hanging(line, kHelpWidth, 0);
    footer += "\n";
  }
  footer.pop_back();
  return footer;
}

}  // namespace fa2::tools
