// Comments, spaces and words of CUDA C++, without a parser.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fa2 {

/// Joins continued lines, and replaces each comment by a space. `ends` becomes whether the last comment ends.
std::string without_comments(std::string_view text, bool& ends);

/// Returns the text without comments and white space, but with a space between words.
std::string compact(std::string_view text);

/// Returns whether an identifier may have the character behind its first one.
bool is_of_name(char c);

bool has_word(std::string_view code, std::string_view word);

/// Calls word(identifier, the code behind it) for each identifier.
template <class Word>
void each_word(std::string_view code, const Word& word) {
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (!is_of_name(code[i])) continue;
    const std::size_t begin = i;
    while (i < code.size() && is_of_name(code[i])) ++i;
    word(code.substr(begin, i - begin), code.substr(i));
  }
}

}  // namespace fa2
