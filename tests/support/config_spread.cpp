// A stride through the space, and what it missed.
#include "config_spread.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "device_under_test.h"

namespace fa2::test {
namespace {

/// The configurations that have a value of a tunable which none of `chosen` has.
std::vector<KernelConfig> with_new_values(const std::vector<KernelConfig>& all,
                                          const std::vector<KernelConfig>& chosen) {
  std::map<std::string, std::set<int>> seen;
  const auto brings_new = [&](const KernelConfig& config) {
    bool is_new = false;
    KernelConfig::visit(config,
                        [&](const char* name, int value) { is_new |= seen[name].insert(value).second; });
    return is_new;
  };
  for (const KernelConfig& config : chosen) brings_new(config);
  std::vector<KernelConfig> more;
  std::ranges::copy_if(all, std::back_inserter(more), brings_new);
  return more;
}

}  // namespace

std::vector<KernelConfig> spread_over(const std::vector<KernelConfig>& all) {
  const std::size_t most = device_under_test() == kInterpreterDevice ? 5 : 150;
  if (all.size() <= most) return all;
  std::size_t stride = 89;
  while (std::gcd(stride, all.size()) != 1) ++stride;
  std::vector<KernelConfig> chosen;
  for (std::size_t i = 0; i < most; ++i) chosen.push_back(all[i * stride % all.size()]);
  std::ranges::copy(with_new_values(all, chosen), std::back_inserter(chosen));
  return chosen;
}

}  // namespace fa2::test
