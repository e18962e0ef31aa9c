// How fast a plan's launch is on its GPU.
#pragma once

#include <fa2/attention.h>
#include <runtime/device_buffer.h>

#include <functional>
#include <vector>

namespace fa2::tools {

/// Multiplications and additions of the two products: 4 * batch * heads * seqlen^2 * head_dim, half of that
/// if causal (the convention of FlashAttention's tables); for causal problems that are not square, and with a
/// window, the visible pairs are counted. Without a varlen problem's tables, those of mean lengths.
double flops_of(const AttentionProblem& problem);
/// With varlen, the sum over its sequences. `tables`: host pointers, nothing else is read.
double flops_of(const AttentionProblem& problem, const AttentionArgs& tables);

/// TFLOP/s at `us` microseconds per launch.
double tflops(const AttentionProblem& problem, double us);
double tflops(double flops, double us);

/// What the convention counts a backward as: five products, where the forward has two.
inline constexpr double kBackwardFlops = 2.5;

/// A call of a plan.
using Launch = std::function<void(Stream)>;

/// Of an AttentionPlan, or a BackwardPlan.
template <class Plan, class Args>
Launch launch_of(const Plan& plan, const Args& args) {
  return [plan, args](Stream stream) { plan.run(args, stream); };
}

/// One launch, repeated in bursts on a stream of its own. Needs the plan's context current.
class LaunchTimer {
 public:
  /// Launches a few times, to find how many launches make a burst of about 12 ms.
  LaunchTimer(Launch launch, const OwnedStream& stream);

  /// One burst, after one launch that is not measured. Microseconds per launch.
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

/// Quantiles, interpolated. `samples` is not empty.
Spread spread_of(std::vector<double> samples);

}  // namespace fa2::tools
