// The times of two launches that take turns.
#pragma once

#include <tools/launch_timer.h>

#include <utility>
#include <vector>

namespace fa2::bench {

/// Times bursts of both in turn, so that a drifting clock affects both. Returns the medians, microseconds per launch.
inline std::pair<double, double> medians_in_turn(const tools::Launch& first, const tools::Launch& second,
                                                 int rounds) {
  const OwnedStream stream;
  tools::LaunchTimer first_timer(first, stream), second_timer(second, stream);
  std::vector<double> first_us, second_us;
  for (int round = 0; round < rounds; ++round) {
    first_us.push_back(first_timer.burst_us());
    second_us.push_back(second_timer.burst_us());
  }
  return {tools::spread_of(first_us).median, tools::spread_of(second_us).median};
}

}  // namespace fa2::bench
