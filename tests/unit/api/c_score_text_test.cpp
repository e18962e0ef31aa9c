// fa2_make_score_text().
#include <doctest/doctest.h>
#include <fa2/c_score_text.h>
#include <fa2/score_text.h>

#include <string>

TEST_CASE("c score text: has the number of make_score_text()") {
  const fa2_score_text mask{"return at.key % 2 == 0 && at.keys > 0;", "mine.cu", 3, 0};
  int64_t number = 0;
  REQUIRE(fa2_make_score_text(nullptr, nullptr, &mask, nullptr, 0, &number) == FA2_OK);
  CHECK(number == fa2::make_score_text({.mask = "return at.key % 2 == 0 && at.keys > 0;"}));
  CHECK(fa2::score_texts(number).mask.line == 3);
}

TEST_CASE("c score text: mistakes are errors, and leave the number alone") {
  int64_t number = 7;
  const fa2_score_text open{"return (true;", nullptr, 1, 0}, future{"return true;", nullptr, 1, 1};
  CHECK(fa2_make_score_text(nullptr, nullptr, nullptr, nullptr, 0, &number) == FA2_INVALID_REQUEST);
  CHECK(fa2_make_score_text(&open, nullptr, nullptr, nullptr, 0, &number) == FA2_INVALID_REQUEST);
  CHECK(fa2_make_score_text(&future, nullptr, nullptr, nullptr, 0, &number) == FA2_INVALID_REQUEST);
  CHECK(std::string(fa2_last_error()).find("bias.reserved = 1, must be 0") != std::string::npos);
  CHECK(fa2_make_score_text(nullptr, nullptr, &open, nullptr, 0, nullptr) == FA2_INVALID_REQUEST);
  CHECK(number == 7);
}

TEST_CASE("c score text: captures become those of make_score_text()") {
  const fa2_score_text mask{"return ids(at.batch, at.key) < last();", nullptr, 1, 0};
  const fa2_capture_spec captures[] = {{"ids", FA2_INT64, 2}, {"last", FA2_INT32, FA2_CAPTURED_NUMBER}};
  int64_t number = 0;
  REQUIRE(fa2_make_score_text(nullptr, nullptr, &mask, captures, 2, &number) == FA2_OK);
  CHECK(number == fa2::make_score_text(
                      {.mask = mask.text,
                       .captures = {{"ids", fa2::CaptureType::i64, 2}, {"last", fa2::CaptureType::i32}}}));
  const fa2_capture_spec wrong[] = {{"ids", 300, 2}};
  CHECK(fa2_make_score_text(nullptr, nullptr, &mask, wrong, 1, &number) == FA2_INVALID_REQUEST);
  CHECK(std::string(fa2_last_error()).find("captures[0].type = 255, must be one of CaptureType") !=
        std::string::npos);
  CHECK(fa2_make_score_text(nullptr, nullptr, &mask, nullptr, 1, &number) == FA2_INVALID_REQUEST);
  const fa2_capture_spec nameless[] = {{nullptr, FA2_INT64, 2}};
  CHECK(fa2_make_score_text(nullptr, nullptr, &mask, nameless, 1, &number) == FA2_INVALID_REQUEST);
}
