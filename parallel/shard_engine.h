// What runs a plan of one rank.
#pragma once

#include <fa2/attention.h>
#include <fa2/backward.h>
#include <parallel/message_carrier.h>
#include <parallel/tensor_copy.h>
#include <planning/plan.h>

#include <cstddef>
#include <functional>

namespace fa2 {

/// Makes the plans and kernels of one rank.
struct PlanMaker {
  std::function<AttentionPlan(const AttentionProblem&)> forward;
  std::function<BackwardPlan(const AttentionProblem&, const Gradients&)>
      backward;  ///< empty without gradients
  LoadRowKernel append, merge, sum;
};

/// One rank's kernels, tables and streams. One run at a time. The device's context must be current, also at destruction.
class ShardEngine {
 public:
  virtual ~ShardEngine() = default;

  /// Returns the bytes that runs need: a multiple of kWorkspaceAlignment.
  virtual std::size_t workspace_bytes() const = 0;

  /// Returns the messages of a pass whose workspace is at `workspace`. They begin and end there.
  virtual MessageLists messages(Pass pass, std::byte* workspace) = 0;

  /// Enqueue a run. The arguments must be valid for the rank's tensors. Later work on `stream` follows kernels and exchanges.
  virtual void run(const AttentionArgs& args, std::byte* workspace, Stream stream) = 0;
  virtual void run_backward(const BackwardArgs& args, std::byte* workspace, Stream stream) = 0;

  /// Return the plans of the first group; null if the rank computes nothing, or no gradients.
  virtual const AttentionPlan* forward() const = 0;
  virtual const BackwardPlan* backward() const = 0;
};

}  // namespace fa2
