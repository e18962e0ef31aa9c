// The operands of a search in a GPU's memory.
#pragma once

#include <fa2/backward.h>
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

/// What the kernels of a pass read, filled in, and what they write. Of the context that is current when it is made.
class TrialTensors {
 public:
  /// `problem` is valid and normalized. Of a shape within the limits, or within less if so much memory cannot be had.
  /// @throws CudaError.
  TrialTensors(const PlannedProblem& problem, KernelPass pass, TrialLimits limits);

  /// The shape that is measured.
  const PlannedProblem& problem() const { return problem_; }
  /// Pointers into this.
  Call call() const;
  DeviceBuffer& operator[](Role role) { return buffers_[static_cast<std::size_t>(role)]; }

  /// Memory for steps that work in scratch, as of this place in the stream: zeros.
  void make_scratch(std::size_t bytes, const OwnedStream& stream);
  std::size_t scratch_bytes() const { return (*this)[Role::workspace].size(); }

 private:
  const DeviceBuffer& operator[](Role role) const { return buffers_[static_cast<std::size_t>(role)]; }
  void allocate();
  void point();
  void upload_pages();
  void upload_inputs();
  void upload_borders(Role role, std::int64_t total, std::int64_t longest);

  PlannedProblem problem_;
  bool is_backward_;
  std::vector<DeviceBuffer> buffers_;  ///< by role; empty for what no kernel of the pass needs
  BackwardArgs args_;
  std::vector<Operand> operands_;
};

}  // namespace fa2
