// Escaping, cutting and comparing text.
#include <core/text.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace fa2 {
namespace {

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

/// Returns the bytes of the character that `text` starts with; 0 if they are not UTF-8 (Unicode 15, table 3-7).
std::size_t utf8_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  if (!std::all_of(text.begin() + 1, text.begin() + static_cast<std::ptrdiff_t>(length), is_continuation))
    return 0;
  const auto second = static_cast<unsigned char>(text[1]);
  const bool is_overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool is_surrogate = first == 0xed && second > 0x9f, is_beyond = first == 0xf4 && second > 0x8f;
  return is_overlong || is_surrogate || is_beyond ? 0 : length;
}

bool is_control(char c) {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
}

/// Optimal string alignment, with only the last three rows of the table.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

}  // namespace

std::string printable(std::string_view text, std::size_t most) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    const bool as_is = length > 0 && !is_control(text[i]);
    const std::string piece = as_is ? std::string(text.substr(i, length))
                                    : fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
    if (out.size() + piece.size() > most) return out + fmt::format("... ({} bytes)", text.size());
    out += piece;
    i += as_is ? length : 1;
  }
  return out;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMostQuoted = 200;
  return '"' + printable(text, kMostQuoted) + '"';
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> words) {
  std::string_view best;
  std::size_t least = word.size() / 3 + 1;
  for (const std::string_view candidate : words) {
    if (word.size() > 2 * candidate.size()) continue;  // too far; the word may be arbitrarily long
    const std::size_t steps = distance(word, candidate);
    if (steps >= least) continue;
    least = steps;
    best = candidate;
  }
  return best;
}

}  // namespace fa2
