// Words separated by commas.
#include <fa2/errors.h>
#include <interpreter/options.h>
#include <runtime/env.h>

#include <charconv>
#include <sstream>

namespace fa2::interpreter {

Options parse_options(const std::string& text) {
  Options options;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "late" || word == "early") {
      options.late = word == "late";
    } else if (word == "checked" || word == "unchecked") {
      options.checks = word == "checked";
    } else {
      const char* const end = word.data() + word.size();
      const bool is_seed = word.rfind("seed=", 0) == 0 && word.size() > 5;
      const auto [stop, error] =
          is_seed ? std::from_chars(word.data() + 5, end, options.seed) : std::from_chars_result{};
      if (!is_seed || error != std::errc() || stop != end) {
        throw InvalidProblem(
            {{"FA2_INTERPRETER", "\"" + word + "\"",
              "must be words of early, late, checked, unchecked, seed=N, separated by commas"}});
      }
    }
  }
  return options;
}

Options options_from_environment() {
  return parse_options(env("FA2_INTERPRETER").value_or(""));
}

}  // namespace fa2::interpreter
