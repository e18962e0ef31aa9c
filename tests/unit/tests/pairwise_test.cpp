// The combinations with which tests sample many factors.
#include <doctest/doctest.h>
#include <tests/support/pairwise.h>

#include <algorithm>

using fa2::test::Combination;
using fa2::test::pairwise;

TEST_CASE("pairwise: every two choices meet, in few combinations") {
  for (const std::vector<std::size_t>& factors :
       {std::vector<std::size_t>{3, 2}, {4, 5, 3, 2, 2, 2, 2}, {2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, {1, 4}}) {
    const std::vector<Combination> all = pairwise(factors);
    CHECK(all.size() < 2 * 4 * 5);
    CHECK(all == pairwise(factors));
    for (std::size_t f = 0; f < factors.size(); ++f) {
      for (std::size_t g = f + 1; g < factors.size(); ++g) {
        for (std::size_t i = 0; i < factors[f] * factors[g]; ++i) {
          const std::size_t x = i % factors[f], y = i / factors[f];
          CHECK(std::ranges::any_of(all, [&](const Combination& c) { return c[f] == x && c[g] == y; }));
        }
      }
    }
  }
  CHECK(pairwise({3, 2}).size() == 6);
}
