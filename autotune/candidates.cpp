// Neighbours of the heuristic's choice in the config space.
#include <autotune/candidates.h>
#include <autotune/heuristic.h>
#include <generator/config_space.h>
#include <generator/kernel_kind.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fa2 {
namespace {

constexpr std::size_t kLikelyCandidates = 24;

/// Returns the best config of each kernel. A search around one does not reach another.
std::vector<KernelConfig> one_of_each_kernel(const std::vector<HeuristicChoice>& choices) {
  std::vector<KernelConfig> first;
  for (const auto& [config, reason] : choices) {
    if (std::ranges::find(first, config.kernel, &KernelConfig::kernel) == first.end())
      first.push_back(config);
  }
  return first;
}

}  // namespace

double distance(const KernelConfig& a, const KernelConfig& b) {
  constexpr double kOtherKernel = 100, kOtherSwitch = 0.25;
  std::vector<std::int32_t> of_b;
  KernelConfig::visit(b, [&](std::string_view, std::int32_t value) { of_b.push_back(value); });
  double sum = a.kernel == b.kernel ? 0 : kOtherKernel;
  std::size_t field = 0;
  KernelConfig::visit(a, [&](std::string_view name, std::int32_t x) {
    const std::int32_t y = of_b[field++];
    if (x == y) return;
    const bool are_sizes = x > 0 && y > 0 && name != "schedule";
    sum += are_sizes ? std::fabs(std::log2(double(x) / y)) : kOtherSwitch;
  });
  return sum;
}

std::vector<KernelConfig> search_candidates(const PlannedProblem& problem, const Arch& arch, TuneScope scope,
                                            KernelPass pass) {
  const std::vector<KernelConfig> first = one_of_each_kernel(heuristic_choices(problem, arch, pass));
  std::vector<KernelConfig> candidates = config_space(traits_of(problem), arch, pass).valid;
  std::erase_if(candidates, [&](const KernelConfig& config) {
    return std::ranges::find(first, config) != first.end() || why_rejected(problem, config, arch).has_value();
  });
  std::ranges::stable_sort(candidates, {},
                           [&](const KernelConfig& config) { return distance(config, first.front()); });
  candidates.insert(candidates.begin(), first.begin(), first.end());
  if (scope == TuneScope::likely) candidates.resize(std::min(candidates.size(), kLikelyCandidates));
  return candidates;
}

}  // namespace fa2
