// A search's candidates on a real GPU.
#pragma once

#include <autotune/tuner.h>
#include <operation/operands.h>
#include <operation/step.h>
#include <operation/trial_data.h>
#include <runtime/device.h>
#include <runtime/device_buffer.h>
#include <runtime/kernel.h>
#include <runtime/kernel_cache.h>
#include <runtime/launch_counters.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace fa2 {

/// Its own stream and memory: at most 1 GiB, less if that cannot be had. Made, measured with and destroyed on
/// one thread, which must not have a stream capture under way.
class GpuTrial final : public Trial {
 public:
  /// `problem` is valid and normalized, with at least one query; `kernels` outlives the trial. @throws
  /// CudaError.
  GpuTrial(const PlannedProblem& problem, const Device& device, const std::vector<KernelConfig>& candidates,
           KernelCache& kernels);

  void prepare(std::size_t index) override;

  /// The first call for a candidate compares its output with that of the first candidate measured at all,
  /// which is 0 unless that failed. One that differs is discarded with an error in the log: such a kernel is
  /// a bug.
  double measure_us(std::size_t index) override;

 private:
  struct Tensors {
    PlannedProblem problem;             ///< the shape that is measured
    std::vector<DeviceBuffer> buffers;  ///< by role, as bshd_args() has them; empty for what is optional

    DeviceBuffer& operator[](Role role) { return buffers[static_cast<std::size_t>(role)]; }
    AttentionArgs args() const;
  };
  struct Candidate {
    KernelConfig config;
    Step step;
    int burst = 0;  ///< launches of one sample; 0: not checked yet
  };

  static Tensors allocate(const PlannedProblem& problem, const Device& device);
  void upload_inputs();
  void upload_borders(Role role, std::int64_t total, std::int64_t longest);
  void launch(const Candidate& candidate, int times) const;
  double time_us(const Candidate& candidate, int times);
  void check_output(const Candidate& candidate);
  std::vector<std::uint16_t> sample_of_output();

  ScopedContext context_;  // first: the rest needs it, to the end
  const Device& device_;
  KernelCache& kernels_;
  Tensors tensors_;
  std::shared_ptr<LaunchCounters> counters_ = std::make_shared<LaunchCounters>();
  OwnedStream stream_;
  StreamTimer timer_;
  std::vector<Candidate> candidates_;
  std::vector<std::uint16_t> expected_;
};

}  // namespace fa2
