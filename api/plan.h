// The inside of an AttentionPlan.
#pragma once

#include <fa2/attention.h>
#include <generator/kernel_spec.h>
#include <planning/step.h>
#include <runtime/stream_memory.h>

#include <memory>
#include <utility>
#include <vector>

namespace fa2 {

struct AttentionPlan::Impl {
  PlannedProblem problem;  ///< normalized
  int device = 0;
  std::vector<Step> steps;    ///< in the order of their launches; none: the output has no element
  WorkspaceLayout workspace;  ///< of the steps' parts
  /// Of the device, for calls without a workspace; null if no step needs any.
  std::shared_ptr<const ScratchPool> scratch;
  bool checks_tables = false;  ///< of sequences, before it launches; which waits for the stream
  Explanation explanation;

  /// What AttentionPlan::run() does. `operands`: of the plan's problem and `args`.
  void run(const AttentionArgs& args, const Operands& operands, Stream stream) const;

  /// The only step, and its parts of the workspace.
  void add(Step step) {
    fa2::add(step, workspace);
    steps.push_back(std::move(step));
  }
};

}  // namespace fa2
