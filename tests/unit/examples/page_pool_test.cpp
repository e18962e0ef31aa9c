// The example's page pool: each page belongs to one sequence, and a sequence's pages are scattered.
#include <doctest/doctest.h>
#include <examples/generate/page_pool.h>

#include <cstdint>
#include <set>
#include <stdexcept>
#include <vector>

TEST_CASE("generate: every page is given out once, in no order, until none is left") {
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
