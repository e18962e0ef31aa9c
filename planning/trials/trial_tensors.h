// The operands of a search, in a GPU's memory.
#pragma once

#include <fa2/backward.h>
#include <fa2/score_text.h>
#include <generator/kernel_kind.h>
#include <generator/kernel_spec.h>
#include <operation/operands/operands.h>
#include <planning/step.h>
#include <planning/trials/trial_data.h>
#include <runtime/device_buffer.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fa2 {

/// Inputs of a pass's kernels, filled, and room for their outputs; in the context that is current when they are made. All work is
/// done on one stream, which must outlive them.
class TrialTensors {
 public:
  /// `problem` must be valid and normalized. Takes a shape within the limits, or a smaller one if memory is short.
  /// @throws CudaError.
  TrialTensors(const PlannedProblem& problem, KernelPass pass, TrialLimits limits, const OwnedStream& stream);

  /// Returns the shape that is measured.
  const PlannedProblem& problem() const { return problem_; }
  /// Returns a call whose arguments point into this. Its counters, then its scratch, lie where make_workspace() put them;
  /// `layout` says how long the counters are.
  Call call(const WorkspaceLayout& layout = {}) const;
  DeviceBuffer& operator[](Role role) { return buffers_[static_cast<std::size_t>(role)]; }

  /// Replaces the workspace by a zeroed one, from this point of the stream on.
  void make_workspace(std::size_t bytes);
  std::size_t workspace_bytes() const { return (*this)[Role::workspace].size(); }

 private:
  const DeviceBuffer& operator[](Role role) const { return buffers_[static_cast<std::size_t>(role)]; }
  void allocate();
  void point();
  void point_captures();
  void upload_pages();
  void upload_inputs();
  void upload_borders(Role role, std::int64_t total, std::int64_t longest);

  PlannedProblem problem_;
  bool is_backward_;
  const OwnedStream& stream_;
  std::vector<DeviceBuffer> buffers_;   ///< by role; empty: no kernel of the pass needs the operand
  std::vector<ScoreCapture> captures_;  ///< of texts of scores
  DeviceBuffer captured_{0};
  BackwardArgs args_;
  std::vector<Operand> operands_;
};

}  // namespace fa2
