// What texts of scores may contain, and their numbers.
#include <core/text_reads.h>
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <fa2/score_text.h>

#include <string>
#include <thread>
#include <vector>

using namespace fa2;

namespace {

/// Returns the rules that a mask breaks.
std::string rules_broken_by(const std::string& mask) {
  try {
    make_score_text({.mask = mask});
    return "";
  } catch (const InvalidRequest& refused) {
    std::string rules;
    for (const Violation& violation : refused.violations())
      rules += violation.field + " " + violation.rule + ";";
    return rules;
  }
}

}  // namespace

TEST_CASE("score text: the number depends on the texts alone") {
  const std::int64_t number = make_score_text({.bias = {"return 1.0f;", "a.cu", 7}});
  CHECK(number > 0);
  CHECK(make_score_text({.bias = {"return 1.0f;", "b.cu", 9}}) == number);
  CHECK(score_texts(number).bias.file == "a.cu");
  CHECK(make_score_text({.mod = "return 1.0f;"}) != number);
  CHECK(make_score_text({.bias = "return 1.0f; "}) != number);
  CHECK_THROWS_AS(score_texts(number + 2), InvalidRequest);
}

TEST_CASE("score text: what could leave its function, or read files, is refused, however it is spelled") {
  const std::string directive = "mask must have no preprocessor directive;";
  CHECK(rules_broken_by("#include </etc/passwd>\nreturn true;") == directive);
  CHECK(rules_broken_by("%: define x\nreturn true;") == directive);
  CHECK(rules_broken_by("%\\\n:define x\nreturn true;") == directive);
  CHECK(rules_broken_by("/* */ # define x\nreturn true;") == directive);
  CHECK(rules_broken_by("?\?=define x\nreturn true;") == "mask must have no trigraph;");
  CHECK(rules_broken_by("?\\\r\n?=define x\nreturn true;") == "mask must have no trigraph;");
  CHECK(rules_broken_by("as\\\nm(1); return true;") == "mask must not use asm;");
  CHECK(rules_broken_by("__asm__ volatile(1); return true;") == "mask must not use __asm__;");
  CHECK(rules_broken_by("return 'a' == \"b\"[0];") == "mask must have no string or character literal;");
  const std::string brackets = "mask must close the brackets that it opens, and no others;";
  CHECK(rules_broken_by("return true; } int outside() { return 1;") == brackets);
  CHECK(rules_broken_by("return (true;") == brackets);
  CHECK(rules_broken_by("return (true];") == brackets);
  CHECK(rules_broken_by("return true; // }\n}") == brackets);
  CHECK(rules_broken_by("return true; %> int outside() <%") ==
        "mask must spell its brackets without digraphs;");
  CHECK(rules_broken_by("return true; /* }") == "mask must end each comment that it begins;");
  CHECK(rules_broken_by(std::string(65537, ' ')) == "mask must have at most 65536 bytes;");
}

TEST_CASE("score text: comments and names that only look like refused ones are none") {
  CHECK(rules_broken_by("int asmr = 1; /* # asm \"{ */ return asmr == 1; // '}") == "");
  CHECK(rules_broken_by("return at.key % 2 == 0;") == "");
  CHECK(rules_broken_by("return at.key < /**/ 3;") == "");
}

TEST_CASE("score text: one message lists all that is wrong") {
  try {
    make_score_text({.bias = {"#", "a\"b", 0}, .mod = "}"});
    FAIL("must be refused");
  } catch (const InvalidRequest& refused) {
    CHECK(refused.violations().size() == 4);
  }
  CHECK_THROWS_WITH_AS(make_score_text({}), doctest::Contains("must have at least one text"), InvalidRequest);
}

TEST_CASE("score text: which masks can be evaluated by ranges") {
  const auto has = [](const std::string& mask) {
    return mask_has_ranges({.mask = mask,
                            .captures = {{"ids", CaptureType::i64, 2},
                                         {"n", CaptureType::i32},
                                         {"gain", CaptureType::f32, 1},
                                         {"pair", CaptureType::f32, CaptureSpec::kPerScore}}});
  };
  CHECK(has("return at.key <= at.query;"));
  CHECK(
      has("const auto t0 = ids(at.batch, at.query); // a row\nreturn t0 == ids(at.batch, at.key) && at.key > "
          "5LL;"));
  CHECK(has("const int row = at.query / 64; return !(row != at.key / 64) || abs(row) < n();"));
  for (const char* const mask :
       {"", "if (at.key < 3) return true; return false;", "return at.key < 3 ? true : false;",
        "for (int i = 0; i < 3; ++i) return true; return false;", "int i = 0; i += 1; return i == at.key;",
        "return gain(at.key) > 0;", "return pair(at) > 0;", "return at.key * 0.5f < 3;",
        "return at.key < .5;", "return at.key < 5u;", "return at.key < 0x10;", "return unsigned(at.key) < 3;",
        "return helper(at.key);", "const auto other = at; return other.key < 3;", "{ return at.key < 3; }"})
    CHECK_MESSAGE(!has(mask), mask);
}

TEST_CASE("score text: eight threads at once get the same numbers") {
  std::vector<std::int64_t> numbers(8 * 50);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 50; ++i)
        numbers[50 * t + i] = make_score_text({.bias = {"return " + std::to_string(i) + ".0f;"}});
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < numbers.size(); ++i) CHECK(numbers[i] == numbers[i % 50]);
}
