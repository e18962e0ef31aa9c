// Tensors that travel from shards of tokens to shards of heads and back, without kernels.
#include <doctest/doctest.h>
#include <fa2/context_parallel.h>
#include <parallel/head_plan.h>
#include <parallel/thread_group.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace {

using namespace fa2;
using namespace std::chrono_literals;

constexpr std::int64_t kTokens = 23, kEntries = 2, kHeads = 5;

std::int32_t value_of(std::int64_t entry, std::int64_t token, std::int64_t head) {
  return static_cast<std::int32_t>(10000 * entry + 100 * token + head);
}

/// Rows of some heads, a number each.
struct Rows {
  std::int64_t tokens;
  Slice heads;
  std::vector<std::int32_t> values = std::vector<std::int32_t>(kEntries * tokens * heads.size(), -1);

  std::int32_t& at(std::int64_t entry, std::int64_t row, std::int64_t head) {
    return values[(entry * tokens + row) * heads.size() + head - heads.begin];
  }
  RowMemory memory() {
    const std::int64_t row_bytes = heads.size() * 4;
    return {reinterpret_cast<std::byte*>(values.data()), kEntries, tokens * row_bytes, row_bytes};
  }
};

void exchange(Communicator& own, std::vector<Rows>& blocks, Rows& whole, Direction direction,
              const std::vector<RowsOfSlices>& held) {
  HeadExchange of{{}, whole.memory()};
  for (Rows& block : blocks) of.blocks.push_back(block.memory());
  std::vector<Transfer> transfers;
  add_transfers(transfers, of, direction, held, own.rank());
  own.wait(own.exchange(transfers.data(), transfers.size(), nullptr));
}

void expect_round_trip(Communicator& own, const ShardLayout& layout) {
  std::vector<RowsOfSlices> held;
  for (const std::vector<Slice>& slices : layout.ranks) held.emplace_back(slices);
  const RowsOfSlices& mine = held[own.rank()];
  for (const std::vector<Slice>& shares : head_shares(kHeads, own.size(), 2)) {
    std::vector<Rows> blocks;
    const auto for_each = [&](const auto& visit) {
      for (Rows& block : blocks)
        for (std::int64_t entry = 0; entry < kEntries; ++entry)
          for (const Slice& slice : mine.slices())
            for (std::int64_t token = slice.begin; token < slice.end; ++token)
              for (std::int64_t head = block.heads.begin; head < block.heads.end; ++head)
                visit(block.at(entry, mine.of(token), head), value_of(entry, token, head));
    };
    for (const Slice& share : shares) blocks.push_back({mine.count(), share});
    for_each([](std::int32_t& at, std::int32_t value) { at = value; });
    Rows whole{kTokens, shares[own.rank()]};
    exchange(own, blocks, whole, Direction::to_heads, held);
    for (std::int64_t entry = 0; entry < kEntries; ++entry)
      for (std::int64_t token = 0; token < kTokens; ++token)
        for (std::int64_t head = whole.heads.begin; head < whole.heads.end; ++head)
          CHECK(whole.at(entry, token, head) == value_of(entry, token, head));
    for_each([](std::int32_t& at, std::int32_t) { at = -1; });
    exchange(own, blocks, whole, Direction::home, held);
    for_each([](std::int32_t& at, std::int32_t value) { CHECK(at == value); });
  }
}

}  // namespace

TEST_CASE("shares of heads: every rank has some in every group, and nearly as many as the others") {
  CHECK(head_shares(8, 2, 2) == std::vector<std::vector<Slice>>{{{0, 2}, {4, 6}}, {{2, 4}, {6, 8}}});
  CHECK(head_shares(5, 2, 9).size() == 2);
  CHECK(head_shares(3, 3, 4) == std::vector<std::vector<Slice>>{{{0, 1}, {1, 2}, {2, 3}}});
}

TEST_CASE("rows of heads: tensors lie one after the other") {
  HeadRow row;
  row.add(4, 64), row.add(1, 64), row.add(1, 32);
  CHECK(row.elements() == 4 * 64 + 64 + 32);
  std::byte memory[1];
  CHECK(row.place(memory, 2, 3) - memory == 3 * (4 * 64 + 64) * 2);
  const TensorStrides strides = row.strides(1, 3, 10);
  CHECK(strides.batch == 10 * 3 * 352);
  CHECK(strides.head == 64);
  CHECK(strides.row == 3 * 352);
}

TEST_CASE("rows of heads: reach their ranks in the order of the stream, and come home") {
  const std::vector<ShardLayout> layouts = {
      ShardLayout::zigzag(kTokens, 3), ShardLayout::contiguous(kTokens, 2),
      ShardLayout{kTokens, {{{0, 1}, {5, 9}, {20, 23}}, {}, {{1, 5}, {9, 20}}}}};
  for (const ShardLayout& layout : layouts)
    ThreadGroup(layout.size(), {10s, true, 7}).run([&](Communicator& own) {
      expect_round_trip(own, layout);
    });
}
