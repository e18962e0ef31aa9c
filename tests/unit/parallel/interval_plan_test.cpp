// Plans of keys against masks evaluated pair by pair, for random layouts and problems.
#include <doctest/doctest.h>
#include <parallel/interval_plan.h>
#include <parallel/local_sequences.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace fa2;

/// A problem of one stream, and its documents.
struct Stream {
  AttentionProblem problem;
  std::vector<std::int64_t> documents;  ///< empty: one sequence

  std::int64_t tokens() const { return problem.seqlen_q; }

  /// Whether query `i` sees key `j`, from the definitions in problem.h.
  bool sees(std::int64_t i, std::int64_t j) const {
    for (std::size_t d = 0; d + 1 < documents.size(); ++d) {
      if ((i < documents[d + 1]) != (j < documents[d + 1])) return false;
    }
    const auto end = std::upper_bound(documents.begin(), documents.end(), i);
    const std::int64_t begin = documents.empty() ? 0 : *(end - 1), c = i - begin, key = j - begin;
    if (problem.mask != MaskKind::none && key > c) return false;
    if (problem.window_left && key < c - *problem.window_left) return false;
    if (problem.window_right && key > c + *problem.window_right) return false;
    return !problem.attention_chunk || c / *problem.attention_chunk == key / *problem.attention_chunk;
  }
};

Stream plain(std::int64_t tokens, MaskKind mask) {
  Stream stream;
  stream.problem.mask = mask;
  stream.problem.seqlen_q = stream.problem.seqlen_k = tokens;
  return stream;
}

Stream random_stream(std::mt19937& random) {
  Stream stream = plain(random() % 200, random() % 2 ? MaskKind::none : MaskKind::causal_bottom_right);
  AttentionProblem& problem = stream.problem;
  if (random() % 3 == 0) problem.window_left = random() % 40;
  if (random() % 3 == 0) problem.window_right = random() % 40;
  if (random() % 4 == 0) problem.attention_chunk = 1 + random() % 50;
  if (random() % 2 == 0) {
    stream.documents = {0};
    while (stream.documents.back() < stream.tokens())
      stream.documents.push_back(
          std::min<std::int64_t>(stream.tokens(), stream.documents.back() + random() % 60));
    problem.varlen = true;
    problem.total_q = problem.total_k = stream.tokens();
  }
  return stream;
}

/// Returns a layout of any kind, or random slices of which ranks may have none.
ShardLayout random_layout(const Stream& stream, int ranks, std::mt19937& random) {
  const std::int64_t granule = 1 + random() % 20;
  switch (random() % 5) {
    case 0:
      return ShardLayout::contiguous(stream.tokens(), ranks, granule);
    case 1:
      return ShardLayout::zigzag(stream.tokens(), ranks, granule);
    case 2:
      return ShardLayout::balanced(stream.problem, stream.documents, ranks, granule);
    case 3:
      if (!stream.documents.empty()) return ShardLayout::zigzag_documents(stream.documents, ranks, granule);
      [[fallthrough]];
    default:
      break;
  }
  ShardLayout layout{stream.tokens(), std::vector<std::vector<Slice>>(ranks)};
  for (std::int64_t begin = 0, end; begin < stream.tokens(); begin = end) {
    end = std::min<std::int64_t>(stream.tokens(), begin + 1 + random() % 40);
    layout.ranks[random() % ranks].push_back({begin, end});
  }
  return layout;
}

std::set<std::int64_t> tokens_of(const std::vector<Slice>& slices) {
  std::set<std::int64_t> tokens;
  for (const Slice& slice : slices)
    for (std::int64_t token = slice.begin; token < slice.end; ++token) tokens.insert(token);
  return tokens;
}

/// Checks needed keys and transfers against the mask.
void check_plan(const Stream& stream, const ShardLayout& layout, const IntervalPlan& plan) {
  for (int rank = 0; rank < layout.size(); ++rank) {
    std::set<std::int64_t> seen, received = tokens_of(layout.ranks[rank]);
    for (const std::int64_t query : received)
      for (std::int64_t key = 0; key < stream.tokens(); ++key)
        if (stream.sees(query, key)) seen.insert(key);
    CHECK(tokens_of(plan.needed[rank].slices()) == seen);
    std::int64_t count = 0;
    for (const KeyTransfer& transfer : plan.transfers) {
      if (transfer.to != rank) continue;
      const std::set<std::int64_t> keys = tokens_of({transfer.keys}),
                                   held = tokens_of(layout.ranks[transfer.from]);
      CHECK(std::ranges::includes(held, keys));
      CHECK(std::ranges::includes(seen, keys));
      received.insert(keys.begin(), keys.end());
      count += transfer.keys.size();
    }
    CHECK(std::ranges::includes(received, seen));  // and none twice:
    CHECK(count == static_cast<std::int64_t>(seen.size()) - layout.tokens_of(rank));
    CHECK(plan.received_by(rank) == count);
  }
}

/// Checks that the kernel of two pieces sees the pairs of the mask, and returns how many.
std::int64_t check_sequences(const Stream& stream, const IntervalPlan& plan, const StreamMask& mask,
                             int rank) {
  const std::vector<std::int64_t> held = [&] {
    const std::set<std::int64_t> tokens = tokens_of(plan.held[rank].slices());
    return std::vector<std::int64_t>(tokens.begin(), tokens.end());
  }();
  const std::set<std::int64_t> needed_set = tokens_of(plan.needed[rank].slices());
  const std::vector<std::int64_t> needed(needed_set.begin(), needed_set.end());
  const std::int64_t far = 1'000'000;
  const std::int64_t left = stream.problem.window_left.value_or(far);
  const std::int64_t right =
      stream.problem.mask != MaskKind::none ? 0 : stream.problem.window_right.value_or(far);
  std::int64_t next_row = 0, pairs = 0;
  for (const LocalSequence& sequence : local_sequences(plan, mask, rank)) {
    CHECK(sequence.queries.begin == next_row);
    next_row = sequence.queries.end;
    if (sequence.split < sequence.queries.size()) CHECK(sequence.second >= sequence.first);
    for (std::int64_t i = 0; i < sequence.queries.size(); ++i) {
      const std::int64_t query = held[sequence.queries.begin + i];
      const std::int64_t c = i + (i < sequence.split ? sequence.first : sequence.second);
      CHECK(needed[sequence.keys.begin + c] == query);
      for (std::int64_t key = 0; key < sequence.keys.size(); ++key) {
        const bool sees = c - left <= key && key <= c + right;
        CHECK(sees == stream.sees(query, needed[sequence.keys.begin + key]));
        pairs += sees;
      }
    }
  }
  CHECK(next_row == static_cast<std::int64_t>(held.size()));
  return pairs;
}

TEST_CASE(
    "random plans: needed keys are what a mask by pairs says, and pairs over all ranks are the mask's") {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (int seed = 0; seed < 12; ++seed) {
      std::mt19937 random(100 * ranks + seed);
      const Stream stream = random_stream(random);
      const ShardLayout layout = random_layout(stream, ranks, random);
      INFO(to_string(stream.problem), ", ", to_string(layout));
      const StreamMask mask(stream.problem, stream.documents);
      const IntervalPlan plan = plan_intervals(layout, mask);
      check_plan(stream, layout, plan);
      std::int64_t pairs = 0, expected = 0, counted = 0;
      for (std::int64_t i = 0; i < stream.tokens(); ++i)
        for (std::int64_t j = 0; j < stream.tokens(); ++j) expected += stream.sees(i, j);
      for (int rank = 0; rank < ranks; ++rank) {
        for (const Slice& slice : layout.ranks[rank]) counted += mask.pairs(slice);
        pairs += check_sequences(stream, plan, mask, rank);
      }
      CHECK(counted == expected);
      CHECK(pairs == expected);
      CHECK(mask.pairs({0, stream.tokens()}) == expected);
    }
  }
}

TEST_CASE("keys received: (P - 1) n without a mask, a quarter less with zigzag under a causal one") {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    const std::int64_t n = 10, tokens = n * ranks;
    const IntervalPlan all =
        plan_intervals(ShardLayout::zigzag(tokens, ranks), StreamMask(plain(tokens, MaskKind::none).problem));
    const IntervalPlan causal = plan_intervals(
        ShardLayout::zigzag(tokens, ranks), StreamMask(plain(tokens, MaskKind::causal_bottom_right).problem));
    std::int64_t sum = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      CHECK(all.received_by(rank) == (ranks - 1) * n);
      CHECK(causal.received_by(rank) == (2 * ranks - rank) * n / 2 - n);
      sum += causal.received_by(rank);
    }
    CHECK(4 * sum == 3 * n * ranks * (ranks - 1));
  }
}

TEST_CASE("a window's halo is all that zigzag exchanges: left of each slice's begin, right of its end") {
  Stream stream = plain(800, MaskKind::none);
  stream.problem.window_left = 10;
  stream.problem.window_right = 3;
  const IntervalPlan plan = plan_intervals(ShardLayout::zigzag(800, 4), StreamMask(stream.problem));
  CHECK(plan.received_by(0) == 3 + 10);        // [0, 100) and [700, 800)
  CHECK(plan.received_by(1) == 2 * (3 + 10));  // [100, 200) and [600, 700)
  CHECK(plan.received_by(3) == 3 + 10);        // [300, 500)
}

TEST_CASE("a document inside one slice is not sent, and one that a border cuts only as far as queries see") {
  Stream stream = plain(60, MaskKind::causal_bottom_right);
  stream.documents = {0, 10, 20, 40, 60};
  stream.problem.varlen = true;
  stream.problem.total_q = stream.problem.total_k = 60;
  const ShardLayout layout{60, {{{0, 20}}, {{20, 50}}, {{50, 60}}}};
  const IntervalPlan plan = plan_intervals(layout, StreamMask(stream.problem, stream.documents));
  CHECK(plan.transfers == std::vector<KeyTransfer>{{1, 2, {40, 50}}});
}

TEST_CASE(
    "transfers are in an order that does not depend on the rank: by distance, then receiver, then keys") {
  const IntervalPlan plan =
      plan_intervals(ShardLayout::contiguous(6, 3), StreamMask(plain(6, MaskKind::none).problem));
  CHECK(plan.transfers ==
        std::vector<KeyTransfer>{
            {2, 0, {4, 6}}, {0, 1, {0, 2}}, {1, 2, {2, 4}}, {1, 0, {2, 4}}, {2, 1, {4, 6}}, {0, 2, {0, 2}}});
}

TEST_CASE("zigzag: a rank's queries are one sequence of two pieces") {
  const StreamMask mask(plain(8, MaskKind::causal_bottom_right).problem);
  const IntervalPlan plan = plan_intervals(ShardLayout::zigzag(8, 2), mask);
  CHECK(local_sequences(plan, mask, 0) == std::vector<LocalSequence>{{{0, 4}, {0, 8}, 2, 0, 4}});
  CHECK(local_sequences(plan, mask, 1) == std::vector<LocalSequence>{{{0, 4}, {0, 6}, 4, 2, 0}});
}

TEST_CASE("problems whose queries and keys are not one stream are refused, and layouts of another length") {
  Stream stream = plain(8, MaskKind::none);
  CHECK_THROWS_AS(plan_intervals(ShardLayout::zigzag(9, 2), StreamMask(stream.problem)), InvalidRequest);
  stream.problem.seqlen_k = 9;
  stream.problem.varlen = true;
  stream.problem.page_size = 1;
  try {
    const StreamMask mask(stream.problem);
    FAIL("expected an error");
  } catch (const InvalidRequest& error) {
    CHECK(error.violations().size() == 3);
  }
  stream = plain(8, MaskKind::none);
  stream.problem.varlen = true;
  CHECK_THROWS_AS(StreamMask(stream.problem, {0, 9}), InvalidRequest);
}

TEST_CASE("numbers of pairs do not overflow with 2^31 - 1024 tokens") {
  const std::int64_t tokens = (std::int64_t{1} << 31) - 1024;
  CHECK(StreamMask(plain(tokens, MaskKind::causal_bottom_right).problem).pairs({0, tokens}) ==
        tokens * (tokens + 1) / 2);
  CHECK(StreamMask(plain(tokens, MaskKind::none).problem).pairs({0, tokens}) == tokens * tokens);
}

}  // namespace
