// The step that makes the map of KV blocks for a forward with the text of a mask.
#pragma once

#include <planning/plan.h>
#include <planning/planner.h>
#include <runtime/kernel.h>

#include <memory>
#include <vector>

namespace fa2 {

/// Returns the choice of the kernel that makes the map for a kernel with `config`.
ConfigChoice key_map_choice(const KernelConfig& config);

/// Adds the step that makes the map for `attention`, and says there where it lies; behind the plan's scratch so far.
void add_key_map(Plan& plan, const AttentionProblem& problem, Step& attention,
                 std::shared_ptr<const Kernel> kernel);

}  // namespace fa2
