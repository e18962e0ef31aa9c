// The inside of an AttentionPlan.
#pragma once

#include <api/step.h>
#include <fa2/attention.h>
#include <generator/kernel_spec.h>

#include <vector>

namespace fa2 {

struct AttentionPlan::Impl {
  PlannedProblem problem;  ///< normalized
  int device = 0;
  std::vector<Step> steps;  ///< in the order of their launches; none: the output has no element
  Explanation explanation;
};

}  // namespace fa2
