// The inside of an AttentionPlan.
#pragma once

#include <api/launch.h>
#include <fa2/attention.h>
#include <runtime/kernel.h>

#include <memory>

namespace fa2 {

struct AttentionPlan::Impl {
  AttentionProblem problem;  ///< normalized
  int device = 0;
  std::shared_ptr<const Kernel> kernel;
  Launch launch;
  Explanation explanation;
};

}  // namespace fa2
