// A strict parser of the Python dict in a .npy header.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <tools/npy_header.h>

#include <charconv>
#include <set>

namespace fa2::tools {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  NpyHeader header() {
    NpyHeader header;
    std::set<std::string> keys;
    expect('{');
    while (!accept('}')) {
      const std::string key = string("a key");
      if (!keys.insert(key).second) fail(fmt::format("'{}' appears twice", key));
      expect(':');
      value_of(key, header);
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (keys.size() != 3) fail("'descr', 'fortran_order' and 'shape' must all be there");
    skip_space();
    if (at_ != text_.size()) fail("expected nothing after the dict");
    return header;
  }

 private:
  void value_of(const std::string& key, NpyHeader& header) {
    if (key == "descr") {
      skip_space();
      if (next() == '[') fail("a structured dtype; it must be one number an element");
      header.descr = string("a dtype");
    } else if (key == "fortran_order") {
      header.fortran_order = boolean();
    } else if (key == "shape") {
      header.shape = tuple();
    } else {
      fail(fmt::format("unknown key '{}'", key));
    }
  }

  std::string string(const char* what) {
    skip_space();
    const char quote = next();
    if (quote != '\'' && quote != '"') fail(fmt::format("expected {} in quotes", what));
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a string without an end");
    const std::string_view content = text_.substr(at_ + 1, end - at_ - 1);
    for (const char c : content) {
      if (c < ' ' || c > '~' || c == '\\') fail("a character that does not belong into a string");
    }
    at_ = end + 1;
    return std::string(content);
  }

  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}}) {
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return value;
    }
    fail("expected True or False");
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> extents;
    bool comma = true;
    expect('(');
    while (!accept(')')) {
      if (!comma) fail("expected ',' or ')'");
      extents.push_back(extent());
      comma = accept(',');
    }
    if (extents.size() == 1 && !comma) fail("a tuple of one number needs a comma");
    return extents;
  }

  std::int64_t extent() {
    skip_space();
    std::int64_t value = 0;
    const char* const begin = text_.data() + at_;
    const auto [stop, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) fail("a number beyond 64 bits");
    if (error != std::errc() || value < 0 || *begin == '-') fail("expected a number that is not negative");
    at_ += static_cast<std::size_t>(stop - begin);
    return value;
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  char next() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool accept(char c) {
    skip_space();
    if (next() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("expected '{}'", c));
  }

  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(ErrorCode::invalid_request,
                fmt::format("malformed header at character {}: {}", at_, problem));
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text) {
  return Parser(text).header();
}

std::string to_string(const NpyHeader& header) {
  std::string shape;
  for (const std::int64_t extent : header.shape) shape += fmt::format("{}, ", extent);
  if (header.shape.size() > 1) shape.resize(shape.size() - 2);
  if (header.shape.size() == 1) shape.resize(shape.size() - 1);
  return fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': ({}), }}", header.descr,
                     header.fortran_order ? "True" : "False", shape);
}

}  // namespace fa2::tools
