// What a search measures, and in which order.
#pragma once

#include <core/arch.h>
#include <fa2/attention.h>
#include <generator/kernel_kind.h>
#include <generator/kernel_spec.h>

#include <vector>

namespace fa2 {

/// The heuristic's choice, then the valid configurations in `scope`, those most like it first: of the kernels that compute
/// `pass`, of which there is one.
std::vector<KernelConfig> search_candidates(const PlannedProblem& problem, const Arch& arch,
                                            TuneScope scope = TuneScope::likely,
                                            KernelPass pass = KernelPass::forward);

/// How unlike two configurations are, over all fields: octaves where both values are positive, as sizes are, a fixed
/// step where a switch differs; 0 for equal ones. Those of one kind of kernel are nearer than any of another's.
double distance(const KernelConfig& a, const KernelConfig& b);

}  // namespace fa2
