// Which kernels a pack lacks for given requests, without a GPU.
#pragma once

#include <api/requests.h>
#include <generator/kernel_source.h>
#include <runtime/kernel_store.h>

#include <cstddef>
#include <string>
#include <vector>

namespace fa2 {

/// A kernel that some requests need and no store has.
struct MissingKernel {
  std::string arch, key, spec;
  std::string command;       ///< KernelSource::precompile_command
  std::size_t requests = 0;  ///< how many need it
};

struct Coverage {
  std::size_t requests = 0;             ///< how many there are
  std::size_t kernels = 0;              ///< distinct ones that they need
  std::vector<MissingKernel> missing;   ///< in the order in which requests first need them
  std::vector<std::string> impossible;  ///< requests that no kernel can compute: "REQUEST: why"
};

/// Returns what a program with these stores and FA2_JIT=off lacks. Its choices are those of FA2_TUNE=stored: the stores' tuning
/// records, those that ship with the library, the heuristic. A refused kernel counts as its replacement, as in the program.
Coverage coverage_of(const std::vector<PlanRequest>& requests, const Stores& stores);

}  // namespace fa2
