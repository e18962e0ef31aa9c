// Text from outside, such as names and values, in messages.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace fa2 {

/// Returns `text` as UTF-8, cut after `most` bytes with "... (1048576 bytes)". Bytes that are not UTF-8, and control characters
/// other than newline and tab, become \xNN.
std::string printable(std::string_view text, std::size_t most);

/// Returns a value that a user gave, in quotes, short enough for a sentence.
std::string in_quotes(std::string_view text);

/// Returns the member of `words` that needs the fewest insertions, deletions, replacements and swaps of neighbours to become
/// `word`; empty if it needs more than a third of the length of `word`.
std::string_view nearest(std::string_view word, std::span<const std::string_view> words);

}  // namespace fa2
