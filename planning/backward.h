// Plans of attention_backward().
#pragma once

#include <fa2/backward.h>
#include <generator/kernel_kind.h>
#include <planning/backward_scratch.h>
#include <planning/plan.h>
#include <planning/planner.h>

#include <memory>
#include <string>
#include <vector>

namespace fa2 {

/// Returns whether a block of the pass owns keys, not queries.
bool owns_keys(KernelPass pass);

/// Returns whether a pass of the backward has something to write.
bool has_tiles(const AttentionProblem& problem, KernelPass pass);

/// Returns the launch of one kernel of a backward. `problem` must be valid for a backward and normalized; `config` must be of a
/// pass that has tiles, and why_rejected() must accept it.
Step backward_step(const AttentionProblem& problem, const KernelConfig& config,
                   std::shared_ptr<const Kernel> kernel, const BackwardScratch& scratch);

/// Returns `gradients` with the determinism that the problem guarantees: batch_invariant implies bitwise.
Gradients kept_by(const AttentionProblem& problem, Gradients gradients);

/// Which kernels compute all three gradients.
/// fused: one kernel computes dQ, dK and dV, and accumulates dQ over key tiles. If there is none, like
/// separate.
/// separate: one or more kernels for dQ, and others for dK and dV. None accumulates dQ.
enum class BackwardKernels : std::uint8_t { fused, separate };

/// Returns the passes of a backward's plan in launch order.
std::vector<KernelPass> backward_passes(const PlannedProblem& problem, const Gradients& gradients,
                                        const Target& target, const ConfigChooser& chooser,
                                        BackwardKernels kernels = BackwardKernels::fused);

/// Returns the passes among them that can be tuned. @throws InvalidRequest for bitwise gradients.
std::vector<KernelPass> tuned_passes(const PlannedProblem& problem, const Gradients& gradients,
                                     const Target& target, const ConfigChooser& chooser);

/// Returns the kernels that a backward launches, in this order. If the fused kernel cannot be had and is not pinned, returns
/// separate kernels; a warning and a line of `notes` say so. Bitwise gradients ignore tuning records, which depend on the batch.
/// @throws the first error if neither can be had.
std::vector<LoadedKernel> backward_kernels(const Planner& planner, const Gradients& gradients,
                                           std::string& notes);

/// Returns the plan; the Context adds its device and what it provides to calls without a workspace. `notes`: see Explanation.
Plan plan_backward(const Planner& planner, const Gradients& gradients, std::string notes);

}  // namespace fa2
