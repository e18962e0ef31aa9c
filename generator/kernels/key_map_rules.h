// Rules of kernels that read the map of what the text of a mask shows.
#pragma once

#include <generator/kernel_kind.h>
#include <generator/kernel_spec.h>
#include <generator/kernels/rules.h>
#include <generator/key_map_layout.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fa2::key_map_rules {

/// Checks that a kernel with a map has a text of a mask to be mapped.
inline void check(const AttentionTraits& traits, const KernelConfig& config, BrokenRules& rules) {
  rules.expect(config.key_map == 0 || has_mask_text(traits), "key_map = 1 without the text of a mask");
}

/// Lets the configs that can visit the KV blocks of a map, where one saves more than it costs.
inline void use_maps(const AttentionProblem& problem, std::vector<KernelConfig>& configs) {
  constexpr std::int64_t kLeastQueries = 128;
  constexpr std::size_t kMostBytes = std::size_t{1} << 28;
  if (!has_mask_text(problem) || problem.seqlen_q < kLeastQueries) return;
  for (KernelConfig& config : configs) {
    if (splits_keys(config) || key_map_layout(problem, config).bytes() > kMostBytes) continue;
    config.key_map = 1;
    config.skip_masked = 0;
  }
}

}  // namespace fa2::key_map_rules
