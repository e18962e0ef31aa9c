// What runs where nothing may be compiled and no cache holds the chosen kernel.
#pragma once

#include <autotune/config_choice.h>

#include <string>
#include <vector>

namespace fa2 {

/// In place of `choice`: those of `alternatives` whose kernels are cached, then the other cached kernels of the
/// problem's traits that can compute it, those most like `choice` first. `cached`: specs (KernelSource::spec).
std::vector<ConfigChoice> cached_choices(const ConfigChoice& choice, std::vector<ConfigChoice> alternatives,
                                         const std::vector<std::string>& cached,
                                         const PlannedProblem& problem, const Arch& arch);

}  // namespace fa2
