// The problems that records ship of.
#pragma once

#include <generator/kernel_spec.h>

#include <vector>

namespace fa2::tools {

/// The list of `fa2 tune --matrix standard`. Normalized; each is of another bucket.
std::vector<PlannedProblem> standard_matrix();

}  // namespace fa2::tools
