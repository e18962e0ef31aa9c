// The words of FA2_INTERPRETER.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <interpreter/options.h>

#include <string>
#include <vector>

using namespace fa2;
using interpreter::parse_options;

namespace {

/// The values of the violations that parsing ends with.
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

TEST_CASE("a later word overrules an earlier one") {
  CHECK_FALSE(parse_options("late,early").late);
  CHECK(parse_options("unchecked,checked").checks);
  CHECK(parse_options("seed=1,seed=2").seed == 2);
}

TEST_CASE("every wrong word is named") {
  using Words = std::vector<std::string>;
  CHECK(wrong_words("lat,early,seed=x,checks") == Words{"\"lat\"", "\"seed=x\"", "\"checks\""});
  CHECK(wrong_words("late,,early") == Words{"\"\""});
  CHECK(wrong_words("Late") == Words{"\"Late\""});
  CHECK(wrong_words("late early") == Words{"\"late early\""});
  for (const char* seed : {"seed", "seed=", "seed=-1", "seed= 1", "seed=1 ", "seed=1.5", "seed=4294967296"}) {
    CHECK(wrong_words(seed) == Words{"\"" + std::string(seed) + "\""});
  }
}

TEST_CASE("the message tells which words there are") {
  CHECK_THROWS_WITH_AS(parse_options("quick"), doctest::Contains("early, late, checked, unchecked, seed=N"),
                       InvalidRequest);
}
