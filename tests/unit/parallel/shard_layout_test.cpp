// Layouts: who has which tokens, and what is refused.
#include <doctest/doctest.h>
#include <fa2/context_parallel.h>
#include <parallel/stream_mask.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace fa2;

AttentionProblem causal(std::int64_t tokens) {
  AttentionProblem problem;
  problem.head_dim = 64;
  problem.mask = MaskKind::causal_bottom_right;
  problem.seqlen_q = problem.seqlen_k = tokens;
  return problem;
}

std::int64_t work_of(const ShardLayout& layout, const StreamMask& mask, int rank) {
  std::int64_t pairs = 0;
  for (const Slice& slice : layout.ranks[rank]) pairs += mask.pairs(slice);
  return pairs;
}

TEST_CASE("contiguous and zigzag layouts have equal chunks, and touching slices are one") {
  CHECK(to_string(ShardLayout::contiguous(8, 2)) == "8 tokens: 0 [0, 4); 1 [4, 8)");
  CHECK(to_string(ShardLayout::zigzag(8, 2)) == "8 tokens: 0 [0, 2) [6, 8); 1 [2, 6)");
  CHECK(to_string(ShardLayout::zigzag(8, 1)) == "8 tokens: 0 [0, 8)");
  CHECK(to_string(ShardLayout::zigzag(0, 2)) == "0 tokens: 0; 1");
  CHECK(to_string(ShardLayout::zigzag_documents({0, 4, 8}, 2)) ==
        "8 tokens: 0 [0, 1) [3, 5) [7, 8); 1 [1, 3) [5, 7)");
  CHECK(to_string(ShardLayout::contiguous(10, 2, 4)) == "10 tokens: 0 [0, 4); 1 [4, 10)");
}

TEST_CASE("chunks begin at granules, differ by at most one, and hold each token once") {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (const std::int64_t granule : {1, 3, 16}) {
      for (std::int64_t tokens = 0; tokens <= 300; tokens += 7) {
        const ShardLayout layout = ShardLayout::contiguous(tokens, ranks, granule);
        CHECK(violations(layout).empty());
        std::int64_t least = tokens, most = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          least = std::min(least, layout.tokens_of(rank));
          most = std::max(most, layout.tokens_of(rank));
          for (const Slice& slice : layout.ranks[rank]) CHECK(slice.begin % granule == 0);
        }
        CHECK(most - least <= granule);
        CHECK(violations(ShardLayout::zigzag(tokens, ranks, granule)).empty());
        CHECK(violations(ShardLayout::zigzag_documents({0, tokens / 3, tokens / 3, tokens}, ranks, granule))
                  .empty());
      }
    }
  }
}

TEST_CASE("under a causal mask zigzag gives all ranks the same work, and contiguous chunks do not") {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    const std::int64_t tokens = 48 * ranks;
    const StreamMask mask(causal(tokens));
    const ShardLayout zigzag = ShardLayout::zigzag(tokens, ranks),
                      contiguous = ShardLayout::contiguous(tokens, ranks);
    for (int rank = 0; rank < ranks; ++rank)
      CHECK(work_of(zigzag, mask, rank) * ranks == tokens * (tokens + 1) / 2);
    if (ranks > 1) CHECK(work_of(contiguous, mask, ranks - 1) > 3 * work_of(contiguous, mask, 0) / 2);
  }
}

TEST_CASE("balanced layouts: numbers of chunks differ by at most one, and work by little") {
  std::mt19937 random(1);
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (int round = 0; round < 8; ++round) {
      std::vector<std::int64_t> documents{0};
      while (documents.back() < 20'000) documents.push_back(documents.back() + random() % 3'000);
      const std::int64_t tokens = documents.back(), chunk = 64;
      AttentionProblem problem = causal(tokens);
      problem.varlen = true;
      problem.total_q = problem.total_k = tokens;
      if (round % 2 == 1) problem.window_left = 100;
      const ShardLayout layout = ShardLayout::balanced(problem, documents, ranks, chunk);
      CHECK(violations(layout).empty());
      const StreamMask mask(problem, documents);
      std::int64_t most = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        most = std::max(most, work_of(layout, mask, rank));
        CHECK(std::abs(layout.tokens_of(rank) - tokens / ranks) <= 2 * chunk);
      }
      CHECK(static_cast<double>(most) * ranks < 1.1 * static_cast<double>(mask.pairs({0, tokens})));
    }
  }
}

TEST_CASE(
    "everything that is wrong with a layout is listed, with the tokens that are missing or on two ranks") {
  CHECK(violations({8, {{{0, 4}}, {{4, 8}}, {}}}).empty());
  const auto texts = [](const ShardLayout& layout) {
    std::string all;
    for (const Violation& violation : violations(layout)) all += to_string(violation) + "\n";
    return all;
  };
  CHECK(texts({8, {{{0, 3}}, {{2, 4}, {5, 7}}}}) ==
        "tokens [2, 3) = on ranks 0 and 1, must be on one rank\n"
        "tokens [4, 5) = on no rank, must be on one rank\n"
        "tokens [7, 8) = on no rank, must be on one rank\n");
  CHECK(texts({4, {{{2, 4}, {0, 2}}, {{3, 3}, {3, 5}}}}) ==
        "layout.ranks[0][1] = [0, 2), must not begin before 4, where another slice ends\n"
        "layout.ranks[1][0] = [3, 3), must be tokens of [0, 4)\n"
        "layout.ranks[1][1] = [3, 5), must be tokens of [0, 4)\n");
  CHECK(texts({-1, {}}) ==
        "layout.tokens = -1, must be at least 0\n"
        "layout.ranks = empty, must have an entry per rank\n");
}

TEST_CASE("layouts of impossible sizes are refused, with all that is wrong") {
  const auto count = [](const auto& make) -> std::size_t {
    try {
      make();
    } catch (const InvalidRequest& error) {
      return error.violations().size();
    }
    return 0;
  };
  CHECK(count([] { ShardLayout::contiguous(-1, 0, 0); }) == 3);
  CHECK(count([] { ShardLayout::zigzag(-1, 2); }) == 1);
  CHECK(count([] { ShardLayout::zigzag_documents({}, 2); }) == 1);
  CHECK(count([] { ShardLayout::zigzag_documents({1, 3, 2}, 2); }) == 2);
  CHECK(count([] { ShardLayout::balanced(causal(8), {}, 0, 0); }) == 2);
}

}  // namespace
