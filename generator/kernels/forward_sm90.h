// The forward kernel on wgmma, fed by TMA.
#pragma once

#include <generator/kernel_kind.h>
#include <generator/kernels/wgmma_rules.h>

#include <optional>
#include <vector>

namespace fa2 {

namespace forward_sm90 {

/// Returns how many slots of the ring fit the shared memory; at least 2. Ignores `config.stages`.
int most_stages(const AttentionTraits& traits, const KernelConfig& config, const Arch& arch);

wgmma_rules::RegisterShares register_shares(const KernelSpec& spec);

/// See KernelKind.
std::vector<KernelConfig> heuristic(const PlannedProblem& problem, const Arch& arch);
HeuristicLimits heuristic_limits(const AttentionTraits& traits, const Arch& arch);
std::optional<KernelConfig> config_for_partial_masks(const PlannedProblem& problem, const Arch& arch);

}  // namespace forward_sm90
}  // namespace fa2
