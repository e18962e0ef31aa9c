// fa2_make_score_text(), fa2_check_score_text().
#include <doctest/doctest.h>
#include <fa2/c_score_text.h>
#include <fa2/score_text.h>

#include <cstddef>
#include <string>

namespace {

static_assert(sizeof(fa2_score_texts) == 64 && offsetof(fa2_score_texts, bias) == 8);

/// The members of fa2_score_texts that a test sets.
struct Texts {
  const fa2_score_text *bias = nullptr, *mod = nullptr, *mod_slope = nullptr, *mask = nullptr;
  const fa2_capture_spec* captures = nullptr;
  std::size_t capture_count = 0;
  int32_t block_queries = 0, block_keys = 0;
};

fa2_status make(const Texts& given, int64_t* number) {
  fa2_score_texts texts = FA2_SCORE_TEXTS_INIT;
  texts.bias = given.bias, texts.mod = given.mod, texts.mod_slope = given.mod_slope, texts.mask = given.mask;
  texts.captures = given.captures, texts.capture_count = given.capture_count;
  texts.mask_block_queries = given.block_queries, texts.mask_block_keys = given.block_keys;
  return fa2_make_score_text(&texts, number);
}

fa2_score_text text_of(const char* text) {
  return {text, nullptr, 1, 0};
}

bool last_error_has(const std::string& part) {
  CAPTURE(fa2_last_error());
  return std::string(fa2_last_error()).find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("c score text: has the number of make_score_text()") {
  const fa2_score_text mask{"return at.key % 2 == 0 && at.keys > 0;", "mine.cu", 3, 0};
  int64_t number = 0;
  REQUIRE(make({.mask = &mask}, &number) == FA2_OK);
  CHECK(number == fa2::make_score_text({.mask = "return at.key % 2 == 0 && at.keys > 0;"}));
  CHECK(fa2::score_texts(number).mask.line == 3);
  const fa2_score_text bias = text_of("return 1;"), mod = text_of("return score * 3;"),
                       slope = text_of("return 3;");
  REQUIRE(make({.bias = &bias, .mod = &mod, .mod_slope = &slope, .mask = &mask}, &number) == FA2_OK);
  CHECK(number ==
        fa2::make_score_text(
            {.bias = "return 1;", .mod = "return score * 3;", .mod_slope = "return 3;", .mask = mask.text}));
}

TEST_CASE("c score text: masks by blocks") {
  const fa2_score_text mask = text_of("return at.key / 128 == 0;");
  const auto number_of = [&](int32_t queries, int32_t keys) {
    int64_t number = 0;
    REQUIRE(make({.mask = &mask, .block_queries = queries, .block_keys = keys}, &number) == FA2_OK);
    return number;
  };
  CHECK(number_of(0, 128) == fa2::make_score_text({.mask = mask.text, .mask_block = {1, 128}}));
  CHECK(number_of(0, 0) == number_of(1, 1));
  CHECK(number_of(0, 128) != number_of(128, 128));
  int64_t number = 7;
  CHECK(make({.mask = &mask, .block_queries = -1}, &number) == FA2_INVALID_REQUEST);
  CHECK(last_error_has("mask_block.queries = -1, must be in 1..1048576"));
  const fa2_score_text bias = text_of("return 1;");
  CHECK(make({.bias = &bias, .block_keys = 64}, &number) == FA2_INVALID_REQUEST);
  CHECK(last_error_has("mask_block.keys = 64, must be 1 without a mask"));
  CHECK(number == 7);
}

TEST_CASE("c score text: mistakes are errors, and leave the number alone") {
  int64_t number = 7;
  const fa2_score_text open = text_of("return (true;"), future{"return true;", nullptr, 1, 1};
  CHECK(make({}, &number) == FA2_INVALID_REQUEST);
  CHECK(make({.bias = &open}, &number) == FA2_INVALID_REQUEST);
  CHECK(make({.bias = &future}, &number) == FA2_INVALID_REQUEST);
  CHECK(last_error_has("bias.reserved = 1, must be 0"));
  CHECK(make({.mask = &open}, nullptr) == FA2_INVALID_REQUEST);
  CHECK(fa2_make_score_text(nullptr, &number) == FA2_INVALID_REQUEST);
  CHECK(last_error_has("texts = NULL, must not be NULL"));
  const fa2_score_text slope = text_of("return 1;");
  CHECK(make({.bias = &slope, .mod_slope = &slope}, &number) == FA2_INVALID_REQUEST);
  CHECK(last_error_has("mod_slope = return 1;, must be empty without mod"));
  CHECK(number == 7);
}

TEST_CASE("c score text: the struct's size and reserved field are looked at") {
  const fa2_score_text mask = text_of("return at.key > 1;");
  int64_t number = 7;
  fa2_score_texts texts = FA2_SCORE_TEXTS_INIT;
  texts.mask = &mask;
  texts.struct_size = 0;
  CHECK(fa2_make_score_text(&texts, &number) == FA2_INVALID_REQUEST);
  CHECK(last_error_has("texts = a struct with struct_size 0, must have 64"));
  texts.struct_size = sizeof texts, texts.reserved = 1;
  CHECK(fa2_make_score_text(&texts, &number) == FA2_INVALID_REQUEST);
  CHECK(last_error_has("texts.reserved = 1, must be 0"));
  CHECK(number == 7);
}

TEST_CASE("c score text: captures become those of make_score_text()") {
  const fa2_score_text mask = text_of("return ids(at.batch, at.key) < last();");
  const fa2_capture_spec captures[] = {{"ids", FA2_INT64, 2}, {"last", FA2_INT32, FA2_CAPTURED_NUMBER}};
  int64_t number = 0;
  REQUIRE(make({.mask = &mask, .captures = captures, .capture_count = 2}, &number) == FA2_OK);
  CHECK(number == fa2::make_score_text(
                      {.mask = mask.text,
                       .captures = {{"ids", fa2::CaptureType::i64, 2}, {"last", fa2::CaptureType::i32}}}));
  const fa2_capture_spec wrong[] = {{"ids", 300, 2}};
  CHECK(make({.mask = &mask, .captures = wrong, .capture_count = 1}, &number) == FA2_INVALID_REQUEST);
  CHECK(last_error_has("captures[0].type = 255, must be one of CaptureType"));
  CHECK(make({.mask = &mask, .capture_count = 1}, &number) == FA2_INVALID_REQUEST);
  const fa2_capture_spec nameless[] = {{nullptr, FA2_INT64, 2}};
  CHECK(make({.mask = &mask, .captures = nameless, .capture_count = 1}, &number) == FA2_INVALID_REQUEST);
}

TEST_CASE("c score text: a tensor with an element per score") {
  const fa2_score_text bias = text_of("return pair(at);");
  fa2_capture_spec spec{"pair", FA2_BF16, FA2_CAPTURED_PER_SCORE};
  int64_t number = 0;
  REQUIRE(make({.bias = &bias, .captures = &spec, .capture_count = 1}, &number) == FA2_OK);
  CHECK(number ==
        fa2::make_score_text({.bias = bias.text,
                              .captures = {{"pair", fa2::CaptureType::bf16, fa2::CaptureSpec::kPerScore}}}));
  spec.dtype = FA2_INT32;
  CHECK(make({.bias = &bias, .captures = &spec, .capture_count = 1}, &number) == FA2_INVALID_REQUEST);
  CHECK(last_error_has("must be f16, bf16 or f32 of an element per score"));
}

TEST_CASE("c score text: which tensors may be captures per score") {
  alignas(16) const char memory[32] = {};
  fa2_problem problem = FA2_PROBLEM_INIT;
  problem.batch = 2, problem.heads_q = 3, problem.seqlen_q = 5, problem.seqlen_k = 7;
  const fa2_capture pair{memory, 0, {2, 3, 5, 7}, {120, 40, 8, 1}};
  const auto fits = [&](const fa2_capture& capture, int32_t dtype = FA2_F16) {
    int32_t found = -1;
    CHECK(fa2_fits_per_score(&problem, dtype, &capture, &found) == FA2_OK);
    return found;
  };
  CHECK(fits(pair) == 1);
  CHECK(fits(pair, FA2_FLOAT32) == 1);
  CHECK(fits(pair, FA2_UINT8) == 0);
  CHECK(fits(pair, 300) == 0);
  CHECK(fits({memory, 0, {1, 1, 5, 7}, {1, 1, 8, 1}}) == 1);
  CHECK(fits({memory, 0, {2, 3, 5, 7}, {0, 0, 8, 1}}) == 1);
  CHECK(fits({memory + 2, 0, {2, 3, 5, 7}, {120, 40, 8, 1}}) == 0);
  CHECK(fits({memory, 0, {2, 3, 5, 7}, {105, 35, 7, 1}}) == 0);
  CHECK(fits({memory, 0, {2, 3, 1, 7}, {24, 8, 8, 1}}) == 0);
  CHECK(fits({memory, 0, {2, 3, 5, 8}, {120, 40, 8, 1}}) == 0);
  CHECK(fits({memory, 0, {3, 5, 7, 0}, {40, 8, 1, 0}}) == 0);
  int32_t found = 7;
  CHECK(fa2_fits_per_score(&problem, FA2_F16, nullptr, &found) == FA2_INVALID_REQUEST);
  CHECK(last_error_has("capture = NULL, must not be NULL"));
  CHECK(fa2_fits_per_score(&problem, FA2_F16, &pair, nullptr) == FA2_INVALID_REQUEST);
  CHECK(fa2_fits_per_score(nullptr, FA2_F16, &pair, &found) == FA2_INVALID_REQUEST);
  CHECK(found == 7);
}

TEST_CASE("c score text: a slope is checked with the captures of a call") {
  const fa2_score_text mod = text_of("return gain(at.head) * score * score;"),
                       right = text_of("return 2 * gain(at.head) * score;"),
                       wrong = text_of("return 2 * gain(0) * score;"), broken = text_of("return nonsense;");
  const fa2_capture_spec specs[] = {{"gain", FA2_FLOAT32, 1}};
  const float gains[] = {1, 2};
  const fa2_capture captures[] = {{gains, 0, {2}, {1}}};
  fa2_problem problem = FA2_PROBLEM_INIT;
  problem.heads_q = 2, problem.seqlen_q = 5, problem.seqlen_k = 7;
  const auto make_with = [&](const fa2_score_text* slope) {
    return make({.mod = &mod, .mod_slope = slope, .captures = specs, .capture_count = 1},
                &problem.score_text);
  };
  REQUIRE(make_with(&right) == FA2_OK);
  CHECK(fa2_check_score_text(&problem, captures, 1) == FA2_OK);
  CHECK(fa2_check_score_text(&problem, nullptr, 0) == FA2_INVALID_REQUEST);
  CHECK(last_error_has("capture_count = 0, must be 1"));
  REQUIRE(make_with(&wrong) == FA2_OK);
  CHECK(fa2_check_score_text(&problem, captures, 1) == FA2_INVALID_REQUEST);
  CHECK(last_error_has("d mod / d score, at score "));
  CHECK(last_error_has(", batch 0, head 1, query "));
  REQUIRE(make_with(&broken) == FA2_OK);
  CHECK(fa2_check_score_text(&problem, captures, 1) == FA2_COMPILE);
  CHECK(fa2_check_score_text(nullptr, captures, 1) == FA2_INVALID_REQUEST);
  CHECK(last_error_has("problem = NULL, must not be NULL"));
}
