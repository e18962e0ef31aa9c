// The inside of a BackwardPlan.
#pragma once

#include <fa2/backward.h>
#include <generator/kernel_spec.h>
#include <planning/step.h>
#include <runtime/stream_memory.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace fa2 {

struct BackwardPlan::Impl {
  PlannedProblem problem;  ///< normalized
  Gradients gradients;
  int device = 0;
  std::vector<Step> steps;        ///< in the order of their launches; none: no gradient has an element
  std::size_t scratch_bytes = 0;  ///< delta's, which all steps share
  std::shared_ptr<const ScratchPool> scratch;  ///< of the device, for calls without a workspace
  bool checks_tables = false;  ///< of sequences, before it launches; which waits for the stream
  Explanation explanation;

  /// What BackwardPlan::run() does. `operands`: of the plan's problem and `args`.
  void run(const BackwardArgs& args, OperandList operands, Stream stream) const;
};

}  // namespace fa2
