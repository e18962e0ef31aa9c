// Problems, and what plans, searches and precompilations report of them, as JSON.
#pragma once

#include <fa2/attention.h>
#include <generator/kernel_spec.h>

#include <string>
#include <vector>

namespace fa2 {

/// One JSON object, indented by two spaces; fields named and ordered as in the struct.
std::string to_json(const PlannedProblem& problem);
std::string to_json(const Explanation& explanation);
std::string to_json(const TuneReport& report);
/// A JSON array, one object per search.
std::string to_json(const std::vector<TuneReport>& reports);
/// A JSON array, one object per kernel.
std::string to_json(const std::vector<PrecompiledKernel>& kernels);

}  // namespace fa2
