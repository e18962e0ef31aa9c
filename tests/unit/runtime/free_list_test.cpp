// Each number is given to one taker at a time, and returned.
#include <doctest/doctest.h>
#include <runtime/free_list.h>
#include <runtime/parallel.h>
#include <tests/support/allocations.h>

#include <atomic>
#include <optional>
#include <vector>

using namespace fa2;
using namespace fa2::test;

TEST_CASE("free list: all numbers are taken, none is left, and a returned number is taken again") {
  FreeList list(3);
  for (std::uint32_t i = 0; i < 3; ++i) CHECK(list.take() == i);
  CHECK(list.take() == std::nullopt);
  CHECK(list.take() == std::nullopt);
  list.give_back(1);
  CHECK(list.take() == 1u);
  CHECK(list.take() == std::nullopt);
  for (const std::uint32_t i : {0u, 2u, 1u}) list.give_back(i);
  for (const std::uint32_t i : {1u, 2u, 0u}) CHECK(list.take() == i);
  CHECK(list.take() == std::nullopt);
  CHECK(FreeList(0).take() == std::nullopt);
}

TEST_CASE("free list: returning numbers allocates nothing") {
  if (cannot_count_allocations()) return;
  FreeList list(1000);
  std::vector<std::uint32_t> lent;
  for (int i = 0; i < 700; ++i) lent.push_back(*list.take());
  CHECK(allocations_of([&] {
          for (const std::uint32_t number : lent) list.give_back(number);
        }) == 0);
  CHECK(allocations_of([&] { list.take(); }) == 0);
}

TEST_CASE("free list: threads never hold the same number at once") {
  constexpr std::size_t kThreads = 8, kRounds = 2000, kHeld = 3;
  constexpr std::uint32_t kCapacity = 16;  // fewer than the threads ask for
  FreeList list(kCapacity);
  std::vector<std::atomic<int>> holders(kCapacity);
  std::vector<int> touched(
      kCapacity);  // only the holder writes its element, so a sanitizer detects a second holder
  std::atomic<int> shared = 0, refused = 0, granted = 0;
  for_each_index(kThreads, static_cast<int>(kThreads), [&](std::size_t) {
    for (std::size_t round = 0; round < kRounds; ++round) {
      std::vector<std::uint32_t> mine;
      for (std::size_t i = 0; i < kHeld; ++i) {
        const std::optional<std::uint32_t> number = list.take();
        ++(number ? granted : refused);
        if (!number) continue;
        if (holders.at(*number).fetch_add(1, std::memory_order_relaxed) != 0) ++shared;
        ++touched[*number];
        mine.push_back(*number);
      }
      for (const std::uint32_t number : mine) {
        holders[number].fetch_sub(1, std::memory_order_relaxed);
        list.give_back(number);
      }
    }
  });
  CHECK(shared == 0);
  CHECK(granted + refused == static_cast<int>(kThreads * kRounds * kHeld));
  int all = 0;
  for (const int touches : touched) all += touches;
  CHECK(all == granted);
  for (std::uint32_t i = 0; i < kCapacity; ++i) CHECK(list.take().has_value());
  CHECK(list.take() == std::nullopt);
}
