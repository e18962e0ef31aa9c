// Comments, spaces and words of CUDA C++, without a parser.
#include <core/text_words.h>

#include <cctype>

namespace fa2 {

std::string without_comments(std::string_view text, bool& ends) {
  std::string joined;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool continues = text.substr(i, 2) == "\\\n" || text.substr(i, 3) == "\\\r\n";
    if (continues) {
      i = text.find('\n', i);
    } else {
      joined += text[i];
    }
  }
  std::string code;
  ends = true;
  for (std::size_t i = 0; i < joined.size(); ++i) {
    const std::string_view two = std::string_view(joined).substr(i, 2);
    if (two != "//" && two != "/*") {
      code += joined[i];
      continue;
    }
    const std::size_t end = two == "//" ? joined.find('\n', i) : joined.find("*/", i + 2);
    ends = two == "//" || end != joined.npos;
    if (end == joined.npos) break;
    i = two == "//" ? end : end + 1;
    code += two == "//" ? '\n' : ' ';
  }
  return code;
}

bool is_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool has_word(std::string_view code, std::string_view word) {
  for (std::size_t at = code.find(word); at != code.npos; at = code.find(word, at + 1)) {
    const bool begins = at == 0 || !is_of_name(code[at - 1]);
    const std::size_t end = at + word.size();
    if (begins && (end == code.size() || !is_of_name(code[end]))) return true;
  }
  return false;
}

std::string compact(std::string_view text) {
  bool ends = true;
  std::string code;
  for (const char c : without_comments(text, ends)) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      code += c;
    } else if (!code.empty() && code.back() != ' ') {
      code += ' ';
    }
  }
  std::string joined;
  for (std::size_t i = 0; i < code.size(); ++i) {
    const bool parts_words =
        i > 0 && i + 1 < code.size() && is_of_name(code[i - 1]) && is_of_name(code[i + 1]);
    if (code[i] != ' ' || parts_words) joined += code[i];
  }
  return joined;
}

}  // namespace fa2
