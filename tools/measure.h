// The speed of a plan's launches on its GPU.
#pragma once

#include <fa2/attention.h>
#include <runtime/device_buffer.h>

#include <functional>
#include <vector>

namespace fa2::tools {

/// Returns the multiplications and additions of the two products: 4 * batch * heads * seqlen^2 * head_dim, or
/// half of that if causal, by the convention of FlashAttention's tables. Causal problems that are not square,
/// and windows, count visible pairs. A varlen problem counts sequences of mean length.
double flops_of(const AttentionProblem& problem);
/// Returns the sum over a varlen problem's sequences. `tables`: host pointers; nothing else is read.
double flops_of(const AttentionProblem& problem, const AttentionArgs& tables);

/// Returns TFLOP/s at `us` microseconds per launch.
double tflops(const AttentionProblem& problem, double us);
double tflops(double flops, double us);

/// Work of a backward relative to the forward: five products instead of two.
inline constexpr double kBackwardFlops = 2.5;

/// A call of a plan.
using Launch = std::function<void(Stream)>;

/// Returns a launch of an AttentionPlan or a BackwardPlan.
template <class Plan, class Args>
Launch launch_of(const Plan& plan, const Args& args) {
  return [plan, args](Stream stream) { plan.run(args, stream); };
}

/// Times one launch, repeated in bursts on a stream. The plan's context must be current.
class LaunchTimer {
 public:
  /// Launches a few times, to find how many launches take about 12 ms: one burst.
  LaunchTimer(Launch launch, const OwnedStream& stream);

  /// Runs one launch without timing, then a burst. Returns microseconds per launch.
  double burst_us() { return time_us(launches_); }
  int launches() const { return launches_; }

 private:
  double time_us(int launches);

  Launch launch_;
  const OwnedStream& stream_;
  int launches_ = 1;
};

struct Spread {
  double median = 0;
  double p10 = 0;
  double p90 = 0;
};

/// Returns interpolated quantiles. `samples` must not be empty.
Spread spread_of(std::vector<double> samples);

}  // namespace fa2::tools
