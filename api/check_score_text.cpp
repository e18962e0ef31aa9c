// Samples scores and positions.
#include <api/boundary.h>
#include <fa2/errors.h>
#include <fa2/problem.h>
#include <fa2/score_text.h>
#include <fmt/format.h>
#include <interpreter/host_text.h>
#include <operation/rules/check_captures.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace fa2 {
namespace {

constexpr int kSamples = 10000;
constexpr double kLargestScore = 20;  ///< of those that are tried
constexpr double kTolerance = 1e-4;

void require_captures(const AttentionProblem& problem, const ScoreCapture* captures, std::int64_t count) {
  AttentionArgs args;
  args.captures = captures, args.capture_count = count;
  std::vector<Violation> found;
  check_captures(found, problem, args, {});
  if (!found.empty()) throw InvalidRequest(std::move(found));
}

/// Draws positions of a problem's scores.
class Positions {
 public:
  explicit Positions(const AttentionProblem& problem) : problem_(problem.normalized()) {}

  interpreter::HostPosition operator()(std::mt19937& random) const {
    const auto below = [&](std::int64_t size) {
      return static_cast<int>(
          std::uniform_int_distribution<std::int64_t>(0, std::max<std::int64_t>(size, 1) - 1)(random));
    };
    const AttentionProblem& p = problem_;
    return {.batch = below(p.batch),
            .head = below(p.heads_q),
            .query = below(p.seqlen_q),
            .key = below(p.seqlen_k),
            .queries = static_cast<int>(p.seqlen_q),
            .keys = static_cast<int>(p.seqlen_k)};
  }

 private:
  AttentionProblem problem_;
};

bool is_near(double given, double derived) {
  if (std::isnan(given) || std::isnan(derived)) return std::isnan(given) && std::isnan(derived);
  return given == derived || std::abs(given - derived) <= kTolerance * std::max(1.0, std::abs(derived));
}

/// @throws InvalidRequest at the first sample where mod_slope is wrong.
void require_slope(const AttentionProblem& problem, const interpreter::HostText& text) {
  const Positions draw(problem);
  std::mt19937 random(1);
  std::uniform_real_distribution<double> scores(-kLargestScore, kLargestScore);
  for (int i = 0; i < kSamples; ++i) {
    // Small scores, as most are, and large ones in turn.
    const double score = scores(random) * (i % 2 == 0 ? 1 : 0.1);
    const interpreter::HostPosition at = draw(random);
    if (std::isinf(text.modified(score, at))) continue;  // kernels take 0
    const double given = text.given_slope(score, at), derived = text.slope(score, at);
    if (is_near(given, derived)) continue;
    throw InvalidRequest(
        {{"mod_slope", fmt::format("{:.6g}", given),
          fmt::format("must be {:.6g}, d mod / d score, at score {:.6g}, batch {}, head {}, query {}, key {}",
                      derived, score, at.batch, at.head, at.query, at.key)}});
  }
}

/// Returns a position of the same block of a mask as `at`.
interpreter::HostPosition moved_in_block(const interpreter::HostPosition& at, const MaskBlock& block,
                                         std::mt19937& random) {
  const auto moved = [&](int position, int size, int length) {
    const int begin = position / size * size, last = std::min(begin + size, length) - 1;
    return std::uniform_int_distribution<int>(begin, last)(random);
  };
  interpreter::HostPosition other = at;
  other.query = moved(at.query, block.queries, at.queries);
  other.key = moved(at.key, block.keys, at.keys);
  return other;
}

/// @throws InvalidRequest at the first sample where the mask differs inside a block.
void require_blocks(const AttentionProblem& problem, const interpreter::HostText& text,
                    const MaskBlock& block) {
  const Positions draw(problem);
  std::mt19937 random(1);
  for (int i = 0; i < kSamples; ++i) {
    const interpreter::HostPosition at = draw(random), other = moved_in_block(at, block, random);
    if (text.is_visible(at) == text.is_visible(other)) continue;
    throw InvalidRequest(
        {{"mask_block", fmt::format("{} x {}", block.queries, block.keys),
          fmt::format("must be blocks in which the mask is the same: of batch {}, head {}, it hides one of "
                      "query {}, key {} and query {}, key {}",
                      at.batch, at.head, at.query, at.key, other.query, other.key)}});
  }
}

}  // namespace

void check_score_text(const AttentionProblem& problem, const ScoreCapture* captures,
                      std::int64_t capture_count) try {
  const ScoreTexts& texts = score_texts(problem.score_text);
  require_captures(problem, captures, capture_count);
  const interpreter::HostText text(problem.score_text, {captures, captures + capture_count});
  if (!texts.mod_slope.text.empty()) require_slope(problem, text);
  if (texts.mask_block != MaskBlock{}) require_blocks(problem, text, texts.mask_block);
} catch (...) {
  rethrow_as_error();
}

}  // namespace fa2
