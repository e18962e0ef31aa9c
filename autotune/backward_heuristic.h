// The configurations of the backward when nothing has been measured.
#pragma once

#include <autotune/heuristic.h>
#include <generator/kernel_kind.h>

#include <vector>

namespace fa2 {

/// Of the kernels that compute `pass`, best first, each valid. Empty where none fits: of dK and dV together, at wide head
/// dims.
std::vector<HeuristicChoice> backward_choices(const PlannedProblem& problem, KernelPass pass,
                                              const Arch& arch);

}  // namespace fa2
