// An observer follows the progress of a launch.
#include <doctest/doctest.h>
#include <interpreter/block_observer.h>
#include <interpreter/interpreted_kernel.h>

#include <utility>
#include <vector>

#include "../support/small_kernel.h"

using namespace fa2;
using namespace fa2::test;

TEST_CASE("an observer is notified of every block of its thread's launches") {
  const auto kernel = build({""}, interpreter::Options{});
  std::vector<std::pair<std::size_t, std::size_t>> told;
  {
    const interpreter::ScopedBlockObserver observer(
        [&](std::size_t done, std::size_t total) { told.emplace_back(done, total); });
    launch(*kernel, NoParams{}, {}, 5);
  }
  launch(*kernel, NoParams{}, {}, 2);
  CHECK(told == std::vector<std::pair<std::size_t, std::size_t>>{{1, 5}, {2, 5}, {3, 5}, {4, 5}, {5, 5}});
  CHECK(interpreter::ScopedBlockObserver::current() == nullptr);
}
