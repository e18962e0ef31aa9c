// Takes configs at an even stride, then adds the values that these lack.
#include "config_spread.h"

#include <cstddef>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "device_under_test.h"

namespace fa2::test {
namespace {

/// Adds configs until every value of a tunable in `all` occurs in `chosen`. Prefers configs that add many
/// values.
void add_missing_values(const std::vector<KernelConfig>& all, std::vector<KernelConfig>& chosen) {
  std::set<std::pair<std::string, int>> seen;
  const auto note = [&](const KernelConfig& config) {
    KernelConfig::visit(config, [&](const char* name, int value) { seen.emplace(name, value); });
  };
  for (const KernelConfig& config : chosen) note(config);
  for (int least = 16; least > 0; least /= 2) {
    for (const KernelConfig& config : all) {
      int fresh = 0;
      KernelConfig::visit(config, [&](const char* name, int value) {
        fresh += !seen.contains({name, value});
      });
      if (fresh < least) continue;
      chosen.push_back(config);
      note(config);
    }
  }
}

}  // namespace

std::vector<KernelConfig> spread_over(const std::vector<KernelConfig>& all) {
  const std::size_t most = device_under_test() == kInterpreterDevice ? 5 : 150;
  if (all.size() <= most) return all;
  std::size_t stride = 89;
  while (std::gcd(stride, all.size()) != 1) ++stride;
  std::vector<KernelConfig> chosen;
  for (std::size_t i = 0; i < most; ++i) chosen.push_back(all[i * stride % all.size()]);
  add_missing_values(all, chosen);
  return chosen;
}

}  // namespace fa2::test
