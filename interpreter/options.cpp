// Words separated by commas.
#include <fa2/errors.h>
#include <interpreter/options.h>
#include <runtime/env.h>

#include <charconv>
#include <sstream>
#include <string_view>
#include <vector>

namespace fa2::interpreter {
namespace {

constexpr std::string_view kSeed = "seed=";

/// Whether the whole of `digits` is a number that fits.
bool parse_number(std::string_view digits, std::uint32_t& number) {
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  return error == std::errc() && stop == end;
}

/// Whether `word` is one; a later word overrules an earlier one.
bool apply_setting(std::string_view word, Options& options) {
  if (word == "late" || word == "early") {
    options.late = word == "late";
    return true;
  }
  if (word == "checked" || word == "unchecked") {
    options.checks = word == "checked";
    return true;
  }
  return word.substr(0, kSeed.size()) == kSeed && parse_number(word.substr(kSeed.size()), options.seed);
}

}  // namespace

Options parse_options(const std::string& text) {
  Options options;
  std::vector<Violation> wrong;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    if (apply_setting(word, options)) continue;
    wrong.push_back({"FA2_INTERPRETER", "\"" + word + "\"",
                     "must be words of early, late, checked, unchecked, seed=N, separated by commas"});
  }
  if (!wrong.empty()) throw InvalidProblem(wrong);
  return options;
}

Options options_from_environment() {
  return parse_options(env("FA2_INTERPRETER").value_or(""));
}

}  // namespace fa2::interpreter
