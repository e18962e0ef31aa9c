// Neighbours of the heuristic's choice in the config space.
#include <autotune/candidates.h>
#include <autotune/heuristic.h>
#include <generator/config_space.h>
#include <generator/kernel_kind.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace fa2 {
namespace {

constexpr std::size_t kLikelyCandidates = 24;

}  // namespace

// The rows of one warp matter more than how many warps there are.
double distance(const KernelConfig& a, const KernelConfig& b) {
  const auto octaves = [](double x, double y) { return std::fabs(std::log2(x / y)); };
  const auto rows_per_warp = [](const KernelConfig& c) { return double(c.tile_m) / c.warps; };
  return octaves(rows_per_warp(a), rows_per_warp(b)) + 0.5 * octaves(a.warps, b.warps) +
         octaves(a.tile_n, b.tile_n) + 0.5 * std::abs(a.stages - b.stages) +
         0.5 * std::abs(a.q_in_registers - b.q_in_registers) + 0.5 * std::abs(a.ctas_per_sm - b.ctas_per_sm);
}

std::vector<KernelConfig> search_candidates(const AttentionProblem& problem, const Arch& arch,
                                            TuneScope scope) {
  const KernelConfig first = heuristic(problem, arch).config;
  std::vector<KernelConfig> candidates = config_space(traits_of(problem), arch).valid;
  for (KernelConfig& config : candidates) {
    if (kind_of(config).tunable("packed_heads") != nullptr)
      config.packed_heads = packed_heads(problem, config.tile_m);
  }
  std::erase(candidates, first);
  std::ranges::stable_sort(candidates, {},
                           [&](const KernelConfig& config) { return distance(config, first); });
  candidates.insert(candidates.begin(), first);
  if (scope == TuneScope::likely) candidates.resize(std::min(candidates.size(), kLikelyCandidates));
  return candidates;
}

}  // namespace fa2
