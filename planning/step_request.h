// The input from which a kernel kind makes its launch.
#pragma once

#include <fa2/config.h>
#include <planning/any_ref.h>
#include <planning/backward_scratch.h>
#include <planning/step.h>
#include <runtime/kernel.h>

#include <cstdint>
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

/// Returns the blocks of `config`'s warps that have at least so many threads.
inline std::uint32_t blocks_for(std::int64_t threads, const KernelConfig& config) {
  const std::int64_t block = config.warps * 32;
  return static_cast<std::uint32_t>((threads + block - 1) / block);
}

}  // namespace fa2
