// The configs that a search measures, in order.
#pragma once

#include <core/arch.h>
#include <fa2/attention.h>
#include <generator/kernel_kind.h>
#include <generator/kernel_spec.h>

#include <vector>

namespace fa2 {

/// Returns the heuristic's choice for `pass`, then the valid configs in `scope`, most similar first. At least one kernel must
/// compute the pass.
std::vector<KernelConfig> search_candidates(const PlannedProblem& problem, const Arch& arch,
                                            TuneScope scope = TuneScope::likely,
                                            KernelPass pass = KernelPass::forward);

/// Returns how different two configs are: the sum of octaves between positive values, and of a fixed step per switch; 0 if they are
/// equal. Configs of the same kernel are nearer than configs of different kernels.
double distance(const KernelConfig& a, const KernelConfig& b);

}  // namespace fa2
