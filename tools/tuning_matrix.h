// The problems for which records ship.
#pragma once

#include <generator/kernel_spec.h>

#include <vector>

namespace fa2::tools {

/// Returns the list of `fa2 tune --matrix standard`. Problems are normalized, and each has its own bucket.
std::vector<PlannedProblem> standard_matrix();

}  // namespace fa2::tools
