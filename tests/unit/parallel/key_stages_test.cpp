// Stages of keys without kernels: which tokens arrive where, which pairs kernels see, and where gradients come home.
#include <doctest/doctest.h>
#include <parallel/key_stages.h>
#include <parallel/rank_work.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace fa2;

namespace {

using Tokens = std::vector<std::int64_t>;

struct Request {
  AttentionProblem problem;
  std::vector<std::int64_t> cu_seqlens;
  ShardLayout layout;
};

Tokens tokens_of(const std::vector<Slice>& slices) {
  Tokens tokens;
  for (const Slice& slice : slices)
    for (std::int64_t token = slice.begin; token < slice.end; ++token) tokens.push_back(token);
  return tokens;
}

/// The stages of all ranks, with rows that are numbers of tokens.
class Ranks {
 public:
  explicit Ranks(const Request& of)
      : mask_(of.problem, of.cu_seqlens), intervals_(plan_intervals(of.layout, mask_)) {
    RequestCheck found;
    for (int rank = 0; rank < of.layout.size(); ++rank) {
      const RankWork whole = rank_work(of.problem, of.cu_seqlens, intervals_, mask_, rank, found);
      plans.push_back(plan_key_stages(whole.problem, intervals_, mask_, rank));
      held.push_back(tokens_of(of.layout.ranks[static_cast<std::size_t>(rank)]));
      Tokens box(held.back().size(), -1);
      for (const RowCopy& own : plans.back().own)
        for (std::int64_t i = 0; i < own.rows; ++i) box[own.to + i] = held.back()[own.from + i];
      outboxes.push_back(box);
    }
    CHECK(found.empty());
    problem_ = of.problem;
  }

  std::size_t stages() const { return plans.front().stages.size(); }
  const KeyStage& stage(std::size_t rank, std::size_t number) const { return plans[rank].stages[number]; }

  /// Returns the tokens of a stage's keys, after its exchange.
  Tokens keys(std::size_t rank, std::size_t number) const {
    const KeyStage& at = stage(rank, number);
    Tokens keys(at.rows, -1);
    if (at.own) return {outboxes[rank].begin() + *at.own, outboxes[rank].begin() + *at.own + at.rows};
    deliver(rank, number, &KeyStage::gather,
            [&](std::size_t peer, std::int64_t sent, std::int64_t row) { keys[row] = outboxes[peer][sent]; });
    return keys;
  }

  /// Calls each(peer, row sent, row received) for the rows that a rank receives.
  template <class Each>
  void deliver(std::size_t rank, std::size_t number, std::vector<RowTransfer> KeyStage::*messages,
               const Each& each) const {
    std::map<int, std::size_t> next;  // per peer
    for (const RowTransfer& received : stage(rank, number).*messages) {
      if (received.kind != Transfer::Kind::receive) continue;
      const auto peer = static_cast<std::size_t>(received.peer);
      std::vector<RowTransfer> sends;
      for (const RowTransfer& sent : stage(peer, number).*messages)
        if (sent.kind == Transfer::Kind::send && sent.peer == static_cast<int>(rank)) sends.push_back(sent);
      std::size_t& at = next[received.peer];
      REQUIRE(at < sends.size());
      REQUIRE(sends[at].rows == received.rows);
      for (std::int64_t i = 0; i < received.rows; ++i) each(peer, sends[at].row + i, received.row + i);
      ++at;
    }
  }

  /// Counts the pairs of a query and a key that a stage's kernel sees, as problems and args.h define it.
  void count_pairs(std::size_t rank, std::size_t number,
                   std::map<std::pair<std::int64_t, std::int64_t>, int>& seen) const {
    const Tokens tokens = keys(rank, number);
    for (const LocalSequence& s : stage(rank, number).sequences) {
      for (std::int64_t i = 0; i < s.queries.size(); ++i) {
        const std::int64_t c = i + (i < s.split ? s.first : s.second);
        for (std::int64_t key = 0; key < s.keys.size(); ++key) {
          if (problem_.mask != MaskKind::none && key > c) continue;
          if (problem_.window_left && key < c - *problem_.window_left) continue;
          if (problem_.window_right && key > c + *problem_.window_right) continue;
          ++seen[{held[rank][s.queries.begin + i], tokens[s.keys.begin + key]}];
        }
      }
    }
  }

  const StreamMask& mask() const { return mask_; }

  std::vector<KeyStages> plans;
  std::vector<Tokens> held, outboxes;

 private:
  AttentionProblem problem_;
  StreamMask mask_;
  IntervalPlan intervals_;
};

void expect_all_pairs_once(const Ranks& ranks) {
  std::map<std::pair<std::int64_t, std::int64_t>, int> seen;
  for (std::size_t rank = 0; rank < ranks.plans.size(); ++rank)
    for (std::size_t number = 0; number < ranks.stages(); ++number) ranks.count_pairs(rank, number, seen);
  std::int64_t wrong = 0, pairs = 0;
  for (std::int64_t query = 0; query < ranks.mask().tokens(); ++query) {
    const Slice keys = ranks.mask().keys_of({query, query + 1});
    pairs += keys.size();
    for (std::int64_t key = keys.begin; key < keys.end; ++key) wrong += seen[{query, key}] != 1;
  }
  CHECK(wrong == 0);
  CHECK(seen.size() == static_cast<std::size_t>(pairs));
}

/// The gradient of a key goes from each stage that has it to its owner, whose row of it is that of the outbox.
void expect_gradients_come_home(const Ranks& ranks) {
  for (std::size_t rank = 0; rank < ranks.plans.size(); ++rank) {
    for (std::size_t number = 0; number < ranks.stages(); ++number) {
      const KeyStage& stage = ranks.stage(rank, number);
      Tokens arrivals(stage.arrivals, -1);
      ranks.deliver(rank, number, &KeyStage::returns,
                    [&](std::size_t peer, std::int64_t sent, std::int64_t row) {
                      arrivals[row] = ranks.keys(peer, number)[sent];
                    });
      std::int64_t wrong = 0, added = 0;
      for (const RowCopy& add : stage.adds) {
        added += add.rows;
        for (std::int64_t i = 0; i < add.rows; ++i)
          wrong += arrivals[add.from + i] != ranks.outboxes[rank][add.to + i];
      }
      CHECK(wrong == 0);
      CHECK(added == stage.arrivals);
    }
  }
}

AttentionProblem causal(std::int64_t tokens) {
  AttentionProblem problem;
  problem.mask = MaskKind::causal_bottom_right;
  problem.seqlen_q = problem.seqlen_k = tokens;
  return problem;
}

Request packed(AttentionProblem problem, std::vector<std::int64_t> cu_seqlens, ShardLayout layout) {
  problem.varlen = true;
  problem.batch = static_cast<std::int64_t>(cu_seqlens.size()) - 1;
  problem.total_q = problem.total_k = cu_seqlens.back();
  return {problem, std::move(cu_seqlens), std::move(layout)};
}

}  // namespace

TEST_CASE("key stages: ranks see every visible pair once, and gradients come home") {
  std::mt19937 random(7);
  for (int number = 0; number < 300; ++number) {
    const int ranks = 1 + number % 5;
    AttentionProblem problem = causal(1 + static_cast<std::int64_t>(random() % 60));
    if (number % 3 == 1) problem.window_left = random() % 20;
    if (number % 7 == 2) problem.mask = MaskKind::none;
    if (number % 14 == 2) problem.window_right = random() % 9;
    if (number % 11 == 3) problem.alibi = true;
    Request of{problem,
               {},
               number % 2 == 0 ? ShardLayout::zigzag(problem.seqlen_q, ranks)
                               : ShardLayout::contiguous(problem.seqlen_q, ranks)};
    if (number % 4 == 3) {
      std::vector<std::int64_t> borders{0};
      while (borders.back() < problem.seqlen_q)
        borders.push_back(std::min<std::int64_t>(problem.seqlen_q, borders.back() + 1 + random() % 25));
      problem.seqlen_k = problem.seqlen_q;
      of = packed(problem, borders,
                  number % 8 == 3 ? ShardLayout::zigzag_documents(borders, ranks) : of.layout);
    }
    INFO("number ", number, ": ", to_string(of.problem), ", ", to_string(of.layout));
    const Ranks all(of);
    expect_all_pairs_once(all);
    expect_gradients_come_home(all);
  }
}

TEST_CASE("key stages: a zigzag has one per rank, which own keys begin") {
  for (const int ranks : {1, 2, 3, 8}) {
    const Ranks all({causal(480), {}, ShardLayout::zigzag(480, ranks)});
    CHECK(all.stages() == static_cast<std::size_t>(ranks));
    for (const KeyStages& plan : all.plans) {
      CHECK(plan.stages.front().own == 0);
      CHECK(plan.stages.front().rows == 480 / ranks);
      CHECK(plan.own == std::vector<RowCopy>{{0, 0, 480 / ranks}});
    }
  }
}

TEST_CASE("key stages: ranges that a window sees apart are apart") {
  AttentionProblem problem = causal(80);
  problem.window_left = 30;
  const Ranks all({problem, {}, ShardLayout::zigzag(80, 2)});
  CHECK(all.stages() == 3);  // own chunks 0 and 3; what a rank sees of the other's is one range
  CHECK(all.stage(0, 0).rows == 20);
  CHECK(all.stage(0, 1).rows == 20);
  CHECK(all.stage(1, 0).rows == 40);
  CHECK(all.stage(1, 1).rows == 0);
}

TEST_CASE("key stages: without others' keys there is nothing to exchange") {
  const Ranks all(packed(causal(40), {0, 10, 30, 40}, ShardLayout{40, {{{0, 10}, {30, 40}}, {{10, 30}}}}));
  CHECK(all.stages() == 1);
  for (std::size_t rank = 0; rank < 2; ++rank) CHECK(all.stage(rank, 0).gather.empty());
}
