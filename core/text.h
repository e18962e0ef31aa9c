// Other people's text in messages.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace fa2 {

/// `text` as UTF-8, its first `most` bytes at most: bytes that are no UTF-8, and control characters but newline
/// and tab, become \xNN; where it is cut, "... (1048576 bytes)" follows.
std::string printable(std::string_view text, std::size_t most);

/// A value that a user gave, in quotes, short enough for a sentence.
std::string in_quotes(std::string_view text);

/// The one of `words` that takes the fewest insertions, deletions, replacements and swaps of neighbours; empty
/// if that is more than a third of `word`.
std::string_view nearest(std::string_view word, std::span<const std::string_view> words);

}  // namespace fa2
