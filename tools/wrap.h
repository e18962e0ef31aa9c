// Line wrapping of text for people.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace fa2::tools {

inline constexpr std::size_t kAnyWidth = std::numeric_limits<std::size_t>::max();
inline constexpr std::size_t kHelpWidth = 80;

/// Returns the width of stdout in columns: COLUMNS, else the terminal's; kAnyWidth if there is neither.
std::size_t output_columns();

/// Returns the number of characters in UTF-8 text.
std::size_t width_of(std::string_view text);

/// Breaks lines of more than `width` characters: at a space, else after one of ",/=:", else anywhere. The
/// parts of a line keep its indent. `width` must be at least 1.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

/// Returns wrapped() lines as one text. All but the first begin with `indent` spaces, which `width` includes.
std::string hanging(std::string_view text, std::size_t width, std::size_t indent);

/// Prints a paragraph and a newline to stdout, wrapped to its width.
void print_paragraph(std::string_view text);

}  // namespace fa2::tools
