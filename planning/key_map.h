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

}  // namespace fa2
