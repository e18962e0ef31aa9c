// A search's candidates on a real GPU.
#pragma once

#include <autotune/tuner.h>
#include <planning/step.h>
#include <planning/trials/trial_tensors.h>
#include <runtime/device.h>
#include <runtime/device_buffer.h>
#include <runtime/kernel.h>
#include <runtime/kernel_cache.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace fa2 {

/// Its own stream and memory: at most 1 GiB, less if that cannot be had. Made, measured with and destroyed on
/// one thread, which must not have a stream capture under way. Of a backward the kernels of one pass are measured, alone.
class GpuTrial final : public Trial {
 public:
  /// `problem` is valid and normalized, with at least one query, and one key for a backward; `candidates` are of one pass;
  /// `kernels` outlives the trial. @throws CudaError, CompileError: there is no delta to compute the others with.
  GpuTrial(const PlannedProblem& problem, const Device& device, const std::vector<KernelConfig>& candidates,
           KernelCache& kernels);

  void prepare(std::size_t index) override;

  /// The first call for a candidate compares its outputs with those of the first candidate measured at all,
  /// which is 0 unless that failed. One that differs is discarded with an error in the log: such a kernel is
  /// a bug.
  double measure_us(std::size_t index) override;

 private:
  struct Candidate {
    KernelConfig config;
    Step step = {};
    std::optional<Step> before = {};  ///< of a backward: delta, where this kernel looks for it
    std::optional<Step> after = {};   ///< makes an output of what it leaves in its scratch
    std::size_t workspace_bytes = 0;
    int burst = 0;  ///< launches of one sample; 0: not checked yet
  };

  std::shared_ptr<const Kernel> load(const KernelConfig& config);
  void make_steps(Candidate& candidate);
  void launch(const Step& step, int times);
  double time_us(const Candidate& candidate, int times);
  std::vector<Role> outputs_of(const Candidate& candidate) const;
  void check_outputs(const Candidate& candidate);
  std::vector<std::uint16_t> sample_of(const Operand& output, const DeviceBuffer& buffer) const;

  ScopedContext context_;  // first: the rest needs it, to the end
  const Device& device_;
  KernelCache& kernels_;
  TrialTensors tensors_;
  OwnedStream stream_;
  StreamTimer timer_;
  std::vector<Candidate> candidates_;
  KernelConfig delta_config_;
  std::shared_ptr<const Kernel> delta_;               ///< null of a forward
  std::vector<std::vector<std::uint16_t>> expected_;  ///< of each output
};

}  // namespace fa2
