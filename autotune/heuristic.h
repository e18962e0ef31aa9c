// The configuration to use where nothing has been measured.
#pragma once

#include <core/arch.h>
#include <fa2/config.h>
#include <fa2/problem.h>
#include <generator/kernel_kind.h>
#include <generator/kernel_spec.h>

#include <string>
#include <vector>

namespace fa2 {

struct HeuristicChoice {
  KernelConfig config;
  std::string reason;  ///< one sentence
};

/// Returns the choices of the forward, best first; at least one, and each valid: why_rejected() returns nothing for it. The later
/// ones are for compilers that spill on the earlier. Packed sequences count as batched ones of their mean length.
std::vector<HeuristicChoice> heuristic_choices(const PlannedProblem& problem, const Arch& arch);

/// Returns the choices among the kernels that compute `pass`, best first. Empty if no kernel does, or if there is no choice. For a
/// backward, all are of one kernel.
std::vector<HeuristicChoice> heuristic_choices(const PlannedProblem& problem, const Arch& arch,
                                               KernelPass pass);

/// Returns the first choice of the forward.
HeuristicChoice heuristic(const PlannedProblem& problem, const Arch& arch);

/// Returns problems of the same traits: at least one for each first choice that heuristic_choices() has for any problem of these
/// traits.
std::vector<PlannedProblem> heuristic_cases(const PlannedProblem& problem, const Arch& arch);

/// Like heuristic_cases(), for a pass. In a backward only the number of queries may decide, and only in a kernel that accumulates
/// dQ.
std::vector<PlannedProblem> heuristic_cases(const PlannedProblem& problem, const Arch& arch, KernelPass pass);

}  // namespace fa2
