// check_score_text(): slopes that somebody wrote, against derivatives.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <fa2/problem.h>
#include <fa2/score_text.h>

#include <cstdint>
#include <string>
#include <vector>

using namespace fa2;

namespace {

AttentionProblem problem_of(const ScoreTexts& texts) {
  AttentionProblem problem{.head_dim = 64, .batch = 2, .heads_q = 4, .seqlen_q = 100, .seqlen_k = 120};
  problem.score_text = make_score_text(texts);
  return problem;
}

std::string complaint(const ScoreTexts& texts, const std::vector<ScoreCapture>& captures = {}) {
  try {
    check_score_text(problem_of(texts), captures.data(), static_cast<std::int64_t>(captures.size()));
  } catch (const InvalidRequest& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("check score text: a slope is compared with the derivative at many scores and positions") {
  const ScoreText cap = "return 3 * tanh(score / 3);";
  CHECK(complaint({.mod = cap}) == "");
  CHECK(complaint({.mod = cap, .mod_slope = "const float t = tanh(score / 3.0f); return 1.0f - t * t;"}) ==
        "");
  const std::string wrong = complaint({.mod = cap, .mod_slope = "return 1.0f - tanh(score / 3.0f);"});
  CHECK(contains(wrong, "mod_slope = "));
  CHECK(contains(wrong, ", must be "));
  CHECK(contains(wrong, "d mod / d score, at score "));
  // Wrong for a single head and few keys.
  CHECK(contains(complaint({.mod = "return at.head == 3 && at.key > 110 ? score * 2 : score;",
                            .mod_slope = "return 1;"}),
                 "must be 2, d mod / d score"));
  // Of the score after the bias.
  CHECK(complaint(
            {.bias = "return at.key;", .mod = "return score * score;", .mod_slope = "return 2 * score;"}) ==
        "");
}

TEST_CASE("check score text: a mask is compared inside its blocks") {
  CHECK(complaint({.mask = "return at.key / 32 == at.query / 16;", .mask_block = {16, 32}}) == "");
  CHECK(complaint({.mask = "return at.key / 32 == at.query / 16;", .mask_block = {8, 16}}) == "");
  for (const MaskBlock& wrong : {MaskBlock{32, 32}, {16, 64}, {16, 24}}) {
    CHECK(contains(complaint({.mask = "return at.key / 32 == at.query / 16;", .mask_block = wrong}),
                   "must be blocks in which the mask is the same: of batch "));
  }
}

TEST_CASE("check score text: hidden scores do not count, captures do") {
  CHECK(complaint({.mod = "return at.key > 5 ? -infinity() : score;", .mod_slope = "return 1;"}) == "");
  const std::vector<float> table = {1, 2, 3, 4};
  const std::vector<ScoreCapture> captures = {{.data = table.data(), .sizes = {4}, .strides = {1}}};
  const std::vector<CaptureSpec> specs = {{"gain", CaptureType::f32, 1}};
  CHECK(complaint(
            {.mod = "return score * gain(at.head);", .mod_slope = "return gain(at.head);", .captures = specs},
            captures) == "");
  CHECK(contains(
      complaint({.mod = "return score * gain(at.head);", .mod_slope = "return gain(0);", .captures = specs},
                captures),
      "mod_slope = 1, must be "));
  CHECK(contains(complaint({.mod = "return score * gain(0);", .captures = specs}),
                 "capture_count = 0, must be 1: score_text has so many captures"));
}

TEST_CASE("check score text: what does not compile is said without a device, and a slope needs a mod") {
  CHECK_THROWS_AS(check_score_text(problem_of({.mask = "return at.kee < 7;"})), CompileError);
  CHECK_THROWS_AS(
      check_score_text(problem_of({.mod = "const float x = score; return x;", .mod_slope = "return 1;"})),
      CompileError);
  CHECK_THROWS_AS(check_score_text(AttentionProblem{.head_dim = 64}), InvalidRequest);
  CHECK_THROWS_WITH_AS(make_score_text({.bias = "return 1;", .mod_slope = "return 1;"}),
                       doctest::Contains("must be empty without mod"), InvalidRequest);
  CHECK(make_score_text({.mod = "return score;", .mod_slope = "return 1;"}) !=
        make_score_text({.mod = "return score;"}));
}
