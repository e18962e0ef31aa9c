// Attention by groups of heads without kernels: what arrives in slots, what comes home, and when slots are used.
#include <doctest/doctest.h>
#include <parallel/gather_plan.h>
#include <parallel/group_sizes.h>
#include <parallel/stream_mask.h>
#include <parallel/thread_group.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace {

using namespace fa2;
using namespace std::chrono_literals;

AttentionProblem problem_of(std::int64_t tokens, std::optional<std::int64_t> window) {
  AttentionProblem problem;
  problem.mask = MaskKind::causal_bottom_right;
  problem.window_left = window;
  problem.seqlen_q = problem.seqlen_k = tokens;
  return problem;
}

float key_of(std::int64_t token, std::int64_t head) {
  return static_cast<float>(1000 * token + head);
}

/// A gradient whose sums depend on the order of ranks.
float gradient_of(std::int64_t token, std::int64_t head, int rank) {
  return (rank % 2 == 0 ? 1e6F : -1e6F) + 0.3F * static_cast<float>(token) +
         0.01F * static_cast<float>(head + rank);
}

/// One rank's memory. A row of a slot has an element per head of the group.
struct Rank {
  Rank(Communicator& communicator, const IntervalPlan& intervals, int heads_kv, int groups)
      : own(communicator),
        intervals_of(intervals),
        plan(plan_gather(intervals, own.rank(), head_groups(1, heads_kv, forward_sizes(heads_kv, groups)),
                         head_groups(1, heads_kv, equal_sizes(heads_kv, groups)))),
        heads(heads_kv) {
    for (int slot = 0; slot < kSlots; ++slot) {
      keys[slot].resize(plan.rows * heads);
      gradients[slot].resize(plan.rows * heads);
      arrivals[slot].resize(plan.arrivals * heads);
    }
    sums.resize(held().count() * heads);
  }

  const std::vector<HeadGroup>& groups() const { return pass->groups; }
  const RowsOfSlices& held() const { return intervals_of.held[own.rank()]; }
  const RowsOfSlices& needed() const { return intervals_of.needed[own.rank()]; }

  void copy_own(int group) {
    const Slice& part = groups()[group].heads;
    for (const Slice& slice : held().slices())
      for (std::int64_t token = slice.begin; token < slice.end; ++token)
        for (std::int64_t head = part.begin; head < part.end; ++head)
          keys[group % kSlots][needed().of(token) * part.size() + head - part.begin] = key_of(token, head);
  }

  /// Checks the keys of a group, and makes its gradients.
  void compute(int group) {
    const Slice& part = groups()[group].heads;
    for (const Slice& slice : needed().slices())
      for (std::int64_t token = slice.begin; token < slice.end; ++token)
        for (std::int64_t head = part.begin; head < part.end; ++head) {
          const std::int64_t i = needed().of(token) * part.size() + head - part.begin;
          wrong += keys[group % kSlots][i] != key_of(token, head);
          if (pass == &plan.backward) gradients[group % kSlots][i] = gradient_of(token, head, own.rank());
        }
  }

  void sum(int group) {
    const Slice& part = groups()[group].heads;
    const auto each = [&](const RowCopy& copy, const auto& element) {
      for (std::int64_t row = 0; row < copy.rows; ++row)
        for (std::int64_t head = 0; head < part.size(); ++head) element(copy.from + row, copy.to + row, head);
    };
    for (const RowCopy& copy : plan.own)
      each(copy, [&](std::int64_t to, std::int64_t from, std::int64_t head) {
        sums[to * heads + part.begin + head] = gradients[group % kSlots][from * part.size() + head];
      });
    for (const RowCopy& copy : plan.adds)
      each(copy, [&](std::int64_t from, std::int64_t to, std::int64_t head) {
        sums[to * heads + part.begin + head] += arrivals[group % kSlots][from * part.size() + head];
      });
  }

  /// Exchanges keys of one group and gradients of another in one group of transfers.
  std::uint64_t exchange(const Stage& stage) {
    std::vector<Transfer> all;
    const auto add = [&](const std::vector<RowTransfer>& rows, int group, std::vector<float>& sent,
                         std::vector<float>& received) {
      add_transfers(all, rows, 1, {sent.data()}, {received.data()},
                    groups()[group].heads.size() * sizeof(float));
    };
    if (const auto group = stage.gathers) {
      copy_own(*group);
      add(plan.gather, *group, keys[*group % kSlots], keys[*group % kSlots]);
    }
    if (const auto group = stage.returns)
      add(plan.returns, *group, gradients[*group % kSlots], arrivals[*group % kSlots]);
    return own.exchange(all.data(), all.size(), nullptr);
  }

  void run(const GatherPass& of) {
    pass = &of;
    for (const Stage& stage : of.stages) {
      const std::uint64_t number = exchange(stage);
      if (stage.completes) sum(*stage.completes);
      if (stage.computes) compute(*stage.computes);
      own.wait(number);
    }
  }

  Communicator& own;
  const IntervalPlan& intervals_of;
  GatherPlan plan;
  const GatherPass* pass = &plan.forward;  ///< the one that runs
  int heads;
  std::vector<float> keys[kSlots], gradients[kSlots], arrivals[kSlots], sums;
  int wrong = 0;
};

/// Returns groups of heads of one entry.
std::vector<HeadGroup> groups_of(const std::vector<std::int64_t>& sizes) {
  return head_groups(1, 0, sizes);
}

/// Checks sums bit by bit: the owner's, then those of ranks that need the key, in order.
void check_sums(const Rank& rank) {
  for (const Slice& slice : rank.held().slices())
    for (std::int64_t token = slice.begin; token < slice.end; ++token)
      for (std::int64_t head = 0; head < rank.heads; ++head) {
        float expected = gradient_of(token, head, rank.own.rank());
        for (int other = 0; other < rank.own.size(); ++other)
          if (other != rank.own.rank() && !rank.intervals_of.needed[other].within({token, token + 1}).empty())
            expected += gradient_of(token, head, other);
        CHECK(rank.sums[rank.held().of(token) * rank.heads + head] == expected);
      }
}

TEST_CASE(
    "by groups of heads: needed keys arrive, and gradients come home in rank order, while slots are in use") {
  for (const bool late : {false, true}) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      for (const std::optional<std::int64_t> window :
           {std::optional<std::int64_t>(), std::optional<std::int64_t>(5)}) {
        const std::int64_t tokens = 37;
        const StreamMask mask(problem_of(tokens, window));
        const IntervalPlan intervals = plan_intervals(ShardLayout::zigzag(tokens, ranks), mask);
        const int heads = 5, groups = 1 + ranks % 6;
        ThreadGroup(ranks, {30s, late, static_cast<std::uint64_t>(ranks)}).run([&](Communicator& own) {
          Rank rank(own, intervals, heads, groups);
          rank.run(rank.plan.forward);
          rank.run(rank.plan.backward);
          CHECK(rank.wrong == 0);
          check_sums(rank);
        });
      }
    }
  }
}

TEST_CASE(
    "stages: keys of a group arrive a stage before it is computed, and its gradients go home two stages "
    "later") {
  const IntervalPlan intervals = plan_intervals(ShardLayout::zigzag(8, 2), StreamMask(problem_of(8, {})));
  const std::vector<HeadGroup> two = groups_of({1, 1});
  const GatherPlan plan = plan_gather(intervals, 0, two, two);
  CHECK(plan.forward.stages == std::vector<Stage>{{0, {}, {}, {}}, {1, {}, {}, 0}, {{}, {}, {}, 1}});
  CHECK(plan.backward.stages == std::vector<Stage>{{0, {}, {}, {}},
                                                   {1, {}, {}, 0},
                                                   {{}, {}, {}, 1},
                                                   {{}, 0, {}, {}},
                                                   {{}, 1, 0, {}},
                                                   {{}, {}, 1, {}}});
  CHECK(plan_gather(intervals, 0, two, groups_of({2}), false).backward.stages ==
        std::vector<Stage>{{0, {}, {}, {}}, {{}, {}, {}, 0}});
}

TEST_CASE("rows: own slices lie among the needed keys, and what is received for them behind one another") {
  const IntervalPlan intervals = plan_intervals(ShardLayout::zigzag(8, 2), StreamMask(problem_of(8, {})));
  const std::vector<HeadGroup> all = groups_of({1});
  const GatherPlan zero = plan_gather(intervals, 0, all, all), one = plan_gather(intervals, 1, all, all);
  CHECK(zero.rows == 8);
  CHECK(zero.own == std::vector<RowCopy>{{0, 0, 2}, {2, 6, 2}});
  CHECK(zero.gather ==
        std::vector<RowTransfer>{{Transfer::Kind::receive, 1, 2, 4}, {Transfer::Kind::send, 1, 0, 2}});
  CHECK(zero.arrivals == 2);
  CHECK(zero.adds == std::vector<RowCopy>{{0, 0, 2}});
  CHECK(one.rows == 6);
  CHECK(one.returns ==
        std::vector<RowTransfer>{{Transfer::Kind::receive, 0, 0, 4}, {Transfer::Kind::send, 0, 0, 2}});
  CHECK(one.adds == std::vector<RowCopy>{{0, 0, 4}});
  CHECK(sum_table(zero, 4) == std::vector<std::int32_t>{0, 1, 6, 7, 0, 1, -1, -1});
  CHECK(sum_table(one, 4) == std::vector<std::int32_t>{2, 3, 4, 5, 0, 1, 2, 3});
}

TEST_CASE("head groups: whole entries of a batch, else heads") {
  const std::vector<std::int64_t> heads{2, 3}, entries{1, 2};
  CHECK(head_groups(1, 5, heads) == std::vector<HeadGroup>{{{0, 1}, {0, 2}}, {{0, 1}, {2, 5}}});
  CHECK(head_groups(3, 5, entries) == std::vector<HeadGroup>{{{0, 1}, {0, 5}}, {{1, 3}, {0, 5}}});
}

TEST_CASE("transfers: rows of every entry, in slots of their own") {
  std::vector<float> sent(20), received(30);
  std::vector<Transfer> all;
  const std::vector<RowTransfer> rows{{Transfer::Kind::send, 1, 2, 3}, {Transfer::Kind::receive, 1, 4, 1}};
  add_transfers(all, rows, 2, {sent.data(), 5}, {received.data(), 10}, 8);
  REQUIRE(all.size() == 4);
  CHECK(all[0].data == sent.data() + 4);
  CHECK(all[1].data == sent.data() + 14);
  CHECK(all[1].bytes == 24);
  CHECK(all[2].data == received.data() + 8);
  CHECK(all[3].data == received.data() + 28);
}

}  // namespace
