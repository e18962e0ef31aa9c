// Plans of attention().
#pragma once

#include <planning/plan.h>
#include <planning/planner.h>

#include <memory>
#include <string>
#include <vector>

namespace fa2 {

/// Returns whether a forward has an output element.
inline bool has_output(const AttentionProblem& problem) {
  return problem.batch > 0 && problem.seqlen_q > 0;
}

/// Returns the launch of a forward, persistent blocks for `sm_count` SMs. `problem` must be valid, normalized and have an output;
/// why_rejected() must accept `config`.
Step forward_step(const AttentionProblem& problem, const KernelConfig& config,
                  std::shared_ptr<const Kernel> kernel, int sm_count);

/// Returns the problem whose tuning records a forward's plan uses: that of its second step if it widens keys and values first, else
/// `problem`, which must be normalized.
PlannedProblem tuned_problem(const PlannedProblem& problem, const Target& target,
                             const ConfigChooser& chooser);

/// Returns the kernels that a forward launches, in this order: one, or after the one that widens keys and values another.
std::vector<LoadedKernel> forward_kernels(const Planner& planner);

/// Adds the launch of forward_step() to a plan that may have others, behind the kernel of its map, if there is one. Scratch then begins
/// behind the most counters that a forward has, so that plans share a workspace.
void add_forward(Plan& plan, const AttentionProblem& problem, Step attention,
                 std::shared_ptr<const Kernel> key_map);

/// Returns the plan; the Context adds its device and what it provides to calls without a workspace. `notes`: see Explanation.
Plan plan_forward(const Planner& planner, const std::string& notes);

}  // namespace fa2
