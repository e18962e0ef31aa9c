// The inside of an AttentionPlan.
#pragma once

#include <fa2/attention.h>
#include <generator/kernel_spec.h>
#include <operation/step.h>

#include <utility>
#include <vector>

namespace fa2 {

struct AttentionPlan::Impl {
  PlannedProblem problem;  ///< normalized
  int device = 0;
  std::vector<Step> steps;     ///< in the order of their launches; none: the output has no element
  WorkspaceLayout workspace;   ///< of the steps' parts
  bool checks_tables = false;  ///< of sequences, before it launches; which waits for the stream
  Explanation explanation;

  /// What AttentionPlan::run() does. `operands`: of the plan's problem and `args`.
  void run(const AttentionArgs& args, const Operands& operands, Stream stream) const;

  /// The next step, and its part of the workspace.
  void add(Step step) {
    workspace.add(step.workspace);
    steps.push_back(std::move(step));
  }
};

}  // namespace fa2
