// Rules of kernels that read the map of what the text of a mask shows.
#pragma once

#include <generator/kernel_kind.h>
#include <generator/kernel_spec.h>
#include <generator/kernels/rules.h>
#include <generator/key_map_layout.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace fa2::key_map_rules {

/// Checks that a kernel with a map has a text of a mask to be mapped.
inline void check(const AttentionTraits& traits, const KernelConfig& config, BrokenRules& rules) {
  rules.expect(config.key_map == 0 || has_mask_text(traits), "key_map = 1 without the text of a mask");
}

/// Queries from which on a forward's map saves more than it costs.
inline constexpr std::int64_t kLeastQueries = 128;

/// Lets configs visit the blocks of a map, those that can.
inline void use_maps(const AttentionProblem& problem, std::vector<KernelConfig>& configs) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 28;
  if (!has_mask_text(problem)) return;
  for (KernelConfig& config : configs) {
    if (splits_keys(config) || key_map_layout(problem, config).bytes() > kMostBytes) continue;
    config.key_map = 1;
    config.skip_masked = 0;
  }
}

/// Like use_maps(), for forwards.
inline void use_maps_of_forward(const AttentionProblem& problem, std::vector<KernelConfig>& configs) {
  if (problem.seqlen_q >= kLeastQueries) use_maps(problem, configs);
}

/// Returns HeuristicLimits::queries with the one of use_maps_of_forward().
inline std::vector<std::int64_t> with_limit(const AttentionTraits& traits,
                                            std::vector<std::int64_t> queries) {
  if (has_mask_text(traits)) queries.push_back(kLeastQueries - 1);
  std::ranges::sort(queries);
  return queries;
}

}  // namespace fa2::key_map_rules
