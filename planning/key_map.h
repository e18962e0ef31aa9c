// The step that makes the map of blocks for a kernel with the text of a mask.
#pragma once

#include <planning/plan.h>
#include <planning/planner.h>
#include <runtime/kernel.h>

#include <cstddef>
#include <memory>

namespace fa2 {

/// Returns the choice of the kernel that makes the map for a kernel with `config`.
ConfigChoice key_map_choice(const KernelConfig& config);

/// Adds the step that makes the map for a step that reads it, and says there where it lies: `begin` in the plan's scratch.
void add_key_map(Plan& plan, const AttentionProblem& problem, Step& reader,
                 std::shared_ptr<const Kernel> kernel, std::size_t begin);

/// Makes the maps that are the same in every call now, in memory of the plan, and removes the steps that would make them: those of
/// masks that capture nothing, for sequences of known lengths. The plan's device's context must be current.
/// @throws CudaError, KernelFault.
void make_constant_maps(Plan& plan);

}  // namespace fa2
