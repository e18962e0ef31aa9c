// Problems, and the reports of plans, searches and precompilations, as JSON.
#pragma once

#include <fa2/attention.h>
#include <fa2/context_parallel.h>
#include <generator/kernel_spec.h>

#include <string>
#include <vector>

namespace fa2 {

/// Returns one JSON object, indented by two spaces. Its fields have the names and the order of the struct.
std::string to_json(const PlannedProblem& problem);
std::string to_json(const Explanation& explanation);
std::string to_json(const ContextParallelExplanation& explanation);
std::string to_json(const ContextParallelDecodeExplanation& explanation);
std::string to_json(const TuneReport& report);
/// Returns a JSON array with one object per search.
std::string to_json(const std::vector<TuneReport>& reports);
/// Returns a JSON array with one object per kernel.
std::string to_json(const std::vector<PrecompiledKernel>& kernels);

}  // namespace fa2
