// The input from which a kernel kind makes its launch.
#pragma once

#include <fa2/config.h>
#include <planning/any_ref.h>
#include <planning/backward_scratch.h>
#include <planning/step.h>
#include <runtime/kernel.h>

#include <memory>

namespace fa2 {

/// The input of KernelKind::make_step.
struct StepRequest {
  AnyRef problem;  ///< valid and not empty: a normalized AttentionProblem, an AppendProblem or a MergeProblem
  KernelConfig config;  ///< of the kind; why_rejected() must accept it
  std::shared_ptr<const Kernel> kernel;
  int sm_count = 0;              ///< SMs for persistent blocks
  BackwardScratch scratch = {};  ///< of a backward's plan
};

}  // namespace fa2
