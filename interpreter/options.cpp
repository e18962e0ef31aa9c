// Parses words separated by commas.
#include <fa2/errors.h>
#include <interpreter/options.h>
#include <runtime/env.h>

#include <charconv>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

namespace fa2::interpreter {
namespace {

constexpr std::string_view kSeed = "seed=";

/// Applies one word, which must be valid.
void apply_setting(std::string_view word, Options& options) {
  if (word == "late" || word == "early") options.late = word == "late";
  if (word == "checked" || word == "unchecked") options.checks = word == "checked";
  if (!word.starts_with(kSeed)) return;
  std::from_chars(word.data() + kSeed.size(), word.data() + word.size(), options.seed);
}

}  // namespace

Options parse_options(const std::string& text) {
  Options options;
  if (text.empty()) return options;
  std::vector<Violation> wrong = violations_of_variable("FA2_INTERPRETER", text);
  if (!wrong.empty()) throw InvalidRequest(std::move(wrong));
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) apply_setting(word, options);
  return options;
}

Options options_from_environment() {
  return parse_options(env("FA2_INTERPRETER").value_or(""));
}

}  // namespace fa2::interpreter
