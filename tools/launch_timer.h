// The time of a plan's launches on its GPU.
#pragma once

#include <fa2/attention.h>
#include <runtime/device_buffer.h>

#include <functional>
#include <vector>

namespace fa2::tools {

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
