// Replacements for a chosen kernel that no cache holds, if nothing may be compiled.
#pragma once

#include <autotune/config_choice.h>

#include <string>
#include <vector>

namespace fa2 {

/// Returns the replacements of `choice`: first the members of `alternatives` whose kernels are cached, then other cached kernels of
/// these traits that can compute the problem, most similar first. `cached`: specs (KernelSource::spec).
std::vector<ConfigChoice> cached_choices(const ConfigChoice& choice, std::vector<ConfigChoice> alternatives,
                                         const std::vector<std::string>& cached,
                                         const PlannedProblem& problem, const Arch& arch);

}  // namespace fa2
