// The examples' page pool: each page belongs to one sequence, and a sequence's pages are scattered.
#include <doctest/doctest.h>
#include <examples/model/page_pool.h>

#include <cstdint>
#include <set>
#include <stdexcept>
#include <vector>

TEST_CASE("page pool: every page is given out once, in no order, until none is left") {
  constexpr std::int32_t kPages = 20;
  example::PagePool pool(kPages, 1);
  std::vector<std::int32_t> taken;
  for (std::int32_t i = 0; i < kPages; ++i) taken.push_back(pool.take());
  const std::set<std::int32_t> distinct(taken.begin(), taken.end());
  CHECK(distinct.size() == kPages);
  CHECK(*distinct.begin() == 0);
  CHECK(*distinct.rbegin() == kPages - 1);
  int neighbours = 0;
  for (std::size_t i = 1; i < taken.size(); ++i) neighbours += taken[i] == taken[i - 1] + 1 ? 1 : 0;
  CHECK(neighbours < kPages / 2);
  CHECK_THROWS_AS(pool.take(), std::runtime_error);
}

TEST_CASE("page pool: a page that is given back is free again, and only once") {
  example::PagePool pool(3, 1);
  CHECK(pool.free_pages() == 3);
  const std::int32_t first = pool.take(), second = pool.take();
  CHECK(pool.free_pages() == 1);
  pool.give_back(first);
  CHECK(pool.free_pages() == 2);
  CHECK_THROWS_AS(pool.give_back(first), std::logic_error);
  CHECK_THROWS_AS(pool.give_back(3), std::logic_error);
  CHECK_THROWS_AS(pool.give_back(-1), std::logic_error);
  CHECK(pool.free_pages() == 2);
  std::set<std::int32_t> taken = {second, pool.take(), pool.take()};
  CHECK(taken.size() == 3);
  CHECK(pool.free_pages() == 0);
}

TEST_CASE("page pool: pages of a number of tokens") {
  CHECK(example::pages_for(0, 16) == 0);
  CHECK(example::pages_for(1, 16) == 1);
  CHECK(example::pages_for(16, 16) == 1);
  CHECK(example::pages_for(17, 16) == 2);
}
