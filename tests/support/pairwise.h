// Small sets of combinations in which every two choices meet.
#pragma once

#include <cstddef>
#include <vector>

namespace fa2::test {

/// One choice per factor.
using Combination = std::vector<std::size_t>;

/// Returns combinations of factors[0], factors[1], ... choices, always the same ones. For any two factors,
/// every pair of choices occurs. Greedy, so there are few more than the two largest factors require.
inline std::vector<Combination> pairwise(const std::vector<std::size_t>& factors) {
  struct Pair {
    std::size_t factor, choice, other_factor, other_choice;
  };
  std::vector<Pair> missing;
  for (std::size_t f = 0; f < factors.size(); ++f) {
    for (std::size_t g = f + 1; g < factors.size(); ++g) {
      for (std::size_t i = 0; i < factors[f] * factors[g]; ++i)
        missing.push_back({f, i % factors[f], g, i / factors[f]});
    }
  }
  constexpr std::size_t kOpen = -1;
  const auto holds = [](const Combination& c, const Pair& p) {
    return c[p.factor] == p.choice && c[p.other_factor] == p.other_choice;
  };
  std::vector<Combination> all;
  while (!missing.empty()) {
    Combination c(factors.size(), kOpen);
    c[missing[0].factor] = missing[0].choice;
    c[missing[0].other_factor] = missing[0].other_choice;
    for (std::size_t f = 0; f < factors.size(); ++f) {
      if (c[f] != kOpen) continue;
      std::size_t best = 0, most = 0;
      for (std::size_t i = 0; i < factors[f]; ++i) {
        c[f] = (i + all.size()) % factors[f];  // so that another choice wins a tie each time
        std::size_t met = 1;
        for (const Pair& p : missing) met += (p.factor == f || p.other_factor == f) && holds(c, p);
        if (met > most) most = met, best = c[f];
      }
      c[f] = best;
    }
    std::erase_if(missing, [&](const Pair& p) { return holds(c, p); });
    all.push_back(c);
  }
  return all;
}

}  // namespace fa2::test
