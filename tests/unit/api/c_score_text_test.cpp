// fa2_make_score_text().
#include <doctest/doctest.h>
#include <fa2/c_score_text.h>
#include <fa2/score_text.h>

#include <string>

TEST_CASE("c score text: has the number of make_score_text()") {
  const fa2_score_text mask{"return at.key % 2 == 0;", "mine.cu", 3, 0};
  int64_t number = 0;
  REQUIRE(fa2_make_score_text(nullptr, nullptr, &mask, &number) == FA2_OK);
  CHECK(number == fa2::make_score_text({.mask = "return at.key % 2 == 0;"}));
  CHECK(fa2::score_texts(number).mask.line == 3);
}

TEST_CASE("c score text: mistakes are errors, and leave the number alone") {
  int64_t number = 7;
  const fa2_score_text open{"return (true;", nullptr, 1, 0}, future{"return true;", nullptr, 1, 1};
  CHECK(fa2_make_score_text(nullptr, nullptr, nullptr, &number) == FA2_INVALID_REQUEST);
  CHECK(fa2_make_score_text(&open, nullptr, nullptr, &number) == FA2_INVALID_REQUEST);
  CHECK(fa2_make_score_text(&future, nullptr, nullptr, &number) == FA2_INVALID_REQUEST);
  CHECK(std::string(fa2_last_error()).find("bias.reserved = 1, must be 0") != std::string::npos);
  CHECK(fa2_make_score_text(nullptr, nullptr, &open, nullptr) == FA2_INVALID_REQUEST);
  CHECK(number == 7);
}
