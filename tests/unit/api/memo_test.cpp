// The memo: one maker per key, bounded, safe under threads.
#include <api/memo.h>
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <runtime/parallel.h>
#include <tests/support/allocations.h>

#include <atomic>
#include <latch>
#include <string>
#include <thread>
#include <vector>

using fa2::Memo;

TEST_CASE("a value is made once and found afterwards") {
  Memo<int, std::string> memo(8);
  CHECK_FALSE(memo.find(1).has_value());
  int made = 0;
  const auto make = [&] { return std::to_string(++made); };
  CHECK(memo.get(1, make) == "1");
  CHECK(memo.get(1, make) == "1");
  CHECK(memo.find(1) == "1");
  CHECK(memo.get(2, make) == "2");
  CHECK(memo.size() == 2);
}

TEST_CASE("a failure reaches the caller and is not remembered") {
  Memo<int, int> memo(8);
  const auto fail = []() -> int { throw fa2::CacheError("no"); };
  CHECK_THROWS_WITH_AS(memo.get(1, fail), "no", fa2::CacheError);
  CHECK(memo.get(1, [] { return 5; }) == 5);
}

TEST_CASE("the memo is bounded and keeps the values in use") {
  Memo<int, int> memo(10);
  memo.get(-1, [] { return -1; });
  std::size_t largest = 0;
  for (int i = 0; i < 1000; ++i) {
    memo.get(i, [&] { return i; });
    CHECK(memo.find(-1) == -1);
    largest = std::max(largest, memo.size());
  }
  CHECK(largest <= 10);
  CHECK(largest >= 5);
  for (int recent = 996; recent < 1000; ++recent) CHECK(memo.find(recent) == recent);
  CHECK_FALSE(memo.find(900).has_value());
}

TEST_CASE("a memo of the smallest size still holds a value") {
  Memo<int, int> memo(0);
  CHECK(memo.get(1, [] { return 1; }) == 1);
  CHECK(memo.find(1) == 1);
}

TEST_CASE("threads that want the same key share one make()") {
  constexpr int kThreads = 8;
  Memo<int, int> memo(8);
  std::atomic<int> made = 0;
  std::latch all_here(kThreads);
  std::vector<int> results(kThreads);
  fa2::for_each_index(kThreads, kThreads, [&](std::size_t i) {
    all_here.arrive_and_wait();
    results[i] = memo.get(7, [&] { return ++made; });
  });
  CHECK(made == 1);
  CHECK(results == std::vector<int>(kThreads, 1));
}

TEST_CASE("threads that wait for a make() that throws get its exception") {
  Memo<int, int> memo(8);
  std::latch making(1), release(1);
  std::atomic<int> failures = 0;
  std::jthread maker([&] {
    try {
      memo.get(1, [&]() -> int {
        making.count_down();
        release.wait();
        throw fa2::CacheError("no");
      });
    } catch (const fa2::CacheError&) {
      ++failures;
    }
  });
  making.wait();
  std::jthread waiter([&] {
    release.count_down();
    try {
      memo.get(1, [] { return 1; });  // waits, or comes late and makes its own
      ++failures;
    } catch (const fa2::CacheError&) {
      ++failures;
    }
  });
  maker.join();
  waiter.join();
  CHECK(failures == 2);
}

TEST_CASE("a value that was being made during clear() is returned and not kept") {
  Memo<int, int> memo(8);
  memo.get(2, [] { return 2; });
  CHECK(memo.get(1, [&] {
    memo.clear();
    return 1;
  }) == 1);
  CHECK(memo.size() == 0);
  CHECK(memo.get(1, [] { return 3; }) == 3);
}

TEST_CASE("many threads on many keys, with eviction and clearing") {
  Memo<int, int> memo(16);
  std::atomic<int> wrong = 0;
  fa2::for_each_index(8, 8, [&](std::size_t thread) {
    for (int i = 0; i < 2000; ++i) {
      const int key = (i * (static_cast<int>(thread) + 1)) % 40;
      if (memo.get(key, [&] { return key * key; }) != key * key) ++wrong;
      const auto found = memo.find(key);
      if (found && *found != key * key) ++wrong;
      if (i % 500 == 0) memo.clear();
    }
  });
  CHECK(wrong == 0);
  CHECK(memo.size() <= 16);
}

TEST_CASE("finding a value allocates nothing, nor does making an old one young") {
  Memo<int, int> memo(4);
  for (const int key : {1, 2, 3}) memo.get(key, [&] { return key; });  // the third makes the first two old
  CHECK(fa2::test::allocations_of([&] { memo.find(3); }) == 0);
  CHECK(fa2::test::allocations_of([&] { memo.find(1); }) == 0);
  CHECK(memo.find(1) == 1);
  CHECK(memo.size() == 3);
}
