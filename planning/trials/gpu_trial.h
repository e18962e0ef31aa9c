// A search's candidates on a real GPU.
#pragma once

#include <autotune/tuner.h>
#include <planning/plan.h>
#include <planning/trials/trial_tensors.h>
#include <runtime/device.h>
#include <runtime/device_buffer.h>
#include <runtime/kernel.h>
#include <runtime/kernel_cache.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace fa2 {

/// What a trial takes.
struct TrialEffort {
  double bytes = TrialLimits{}.bytes;  ///< of Q, K, V and O, at most
  double sample_us =
      200;  ///< of launches in one sample: much longer than the resolution of events and the gap before a first launch
  /// Fewest launches of one sample. Between two of them another stream's blocks can take the SMs, and keep them.
  double launches = 3;
};

/// Has memory of its own, less than TrialEffort allows if memory is short. Has a stream of its own, and touches no other. One thread must make it, measure with it and
/// destroy it, and must not capture a stream meanwhile. For a backward, measures the kernels of one pass alone.
class GpuTrial final : public Trial {
 public:
  /// `problem` must be valid and normalized, with a query, and for a backward with a key. `candidates` must be of one pass.
  /// `kernels` must outlive the trial. @throws CudaError; CompileError if delta, which other kernels read, does not compile.
  GpuTrial(const PlannedProblem& problem, const Device& device, const std::vector<KernelConfig>& candidates,
           KernelCache& kernels, const TrialEffort& effort = {});

  void prepare(std::size_t index) override;

  /// The first call for a candidate compares its outputs with those of the first candidate that was measured.
  /// That is candidate 0, unless it failed. A candidate that differs is a bug: it is discarded, with an error
  /// in the log.
  double measure_us(std::size_t index) override;

 private:
  struct Candidate {
    KernelConfig config;
    Plan plan = {};  ///< the candidate, after delta for a backward, before dq_convert if it accumulates dQ
    std::size_t measured = 0;  ///< index of the candidate's step
    int burst = 0;             ///< launches of one sample; 0: the outputs are not checked yet
  };

  std::shared_ptr<const Kernel> load(const KernelConfig& config);
  Plan plan_of(const KernelConfig& config);
  /// Launches the steps `first` to `last` of the candidate's plan, `times` times each.
  void launch(const Candidate& candidate, std::size_t first, std::size_t last, int times = 1);
  double time_us(const Candidate& candidate, int times);
  std::vector<Role> outputs_of(const Candidate& candidate) const;
  void check_outputs(const Candidate& candidate);
  std::vector<std::uint16_t> sample_of(const Operand& output, const DeviceBuffer& buffer) const;

  ScopedContext context_;  // first, because all other members need it until they are destroyed
  const Device& device_;
  KernelCache& kernels_;
  const TrialEffort effort_;
  OwnedStream stream_;
  TrialTensors tensors_;
  StreamTimer timer_;
  std::vector<Candidate> candidates_;
  KernelConfig delta_config_;
  std::shared_ptr<const Kernel> delta_;               ///< null for a forward
  std::vector<std::vector<std::uint16_t>> expected_;  ///< by output
};

}  // namespace fa2
