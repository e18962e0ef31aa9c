// The words of FA2_INTERPRETER.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <interpreter/options.h>

#include <string>
#include <vector>

using namespace fa2;
using interpreter::parse_options;

namespace {

/// Returns the values of the violations that parsing reports.
std::vector<std::string> wrong_words(const std::string& text) {
  std::vector<std::string> words;
  try {
    parse_options(text);
  } catch (const InvalidRequest& error) {
    for (const Violation& violation : error.violations()) {
      CHECK(violation.field == "FA2_INTERPRETER");
      words.push_back(violation.value);
    }
  }
  return words;
}

}  // namespace

TEST_CASE("without words kernels run early, checked and in ascending order") {
  const interpreter::Options options = parse_options("");
  CHECK_FALSE(options.late);
  CHECK(options.checks);
  CHECK(options.seed == 0);
}

TEST_CASE("each word sets its option, in any order") {
  CHECK(parse_options("late").late);
  CHECK_FALSE(parse_options("unchecked").checks);
  CHECK(parse_options("seed=7").seed == 7);
  CHECK(parse_options("seed=4294967295").seed == 4294967295u);
  const interpreter::Options all = parse_options("seed=12,unchecked,late");
  CHECK(all.late);
  CHECK_FALSE(all.checks);
  CHECK(all.seed == 12);
}

TEST_CASE("words that contradict each other are an error that names both") {
  using Words = std::vector<std::string>;
  CHECK(wrong_words("late,early") == Words{"\"early\""});
  CHECK(wrong_words("unchecked,seed=1,checked,seed=2") == Words{"\"checked\"", "\"seed=2\""});
  CHECK(wrong_words("late,late") == Words{"\"late\""});
  CHECK_THROWS_WITH_AS(
      parse_options("early,late"),
      doctest::Contains("FA2_INTERPRETER = \"late\", must not come with \"early\": give one of the two"),
      InvalidRequest);
}

TEST_CASE("every wrong word is named") {
  using Words = std::vector<std::string>;
  CHECK(wrong_words("lat,early,seed=x,checks") == Words{"\"lat\"", "\"seed=x\"", "\"checks\""});
  CHECK(wrong_words("late,,seed=1") == Words{"\"\""});
  CHECK(wrong_words("Late") == Words{"\"Late\""});
  CHECK(wrong_words("late early") == Words{"\"late early\""});
  for (const char* seed : {"seed", "seed=", "seed=-1", "seed= 1", "seed=1 ", "seed=1.5", "seed=4294967296"}) {
    CHECK(wrong_words(seed) == Words{"\"" + std::string(seed) + "\""});
  }
}

TEST_CASE("the message lists the words") {
  CHECK_THROWS_WITH_AS(parse_options("quick"),
                       doctest::Contains("early or late, checked or unchecked, seed=N"), InvalidRequest);
}
