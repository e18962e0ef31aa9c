// Times bursts of launches between two events.
#include <tools/launch_timer.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace fa2::tools {
namespace {

constexpr double kBurstUs = 12e3;
constexpr double kMostLaunches = 2000;

double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const std::size_t low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return std::lerp(sorted[low], sorted[high], at - std::floor(at));
}

}  // namespace

LaunchTimer::LaunchTimer(Launch launch, const OwnedStream& stream)
    : launch_(std::move(launch)), stream_(stream) {
  const double us = std::max(time_us(3), 0.1);
  launches_ = static_cast<int>(std::clamp(kBurstUs / us, 1.0, kMostLaunches));
}

double LaunchTimer::time_us(int launches) {
  StreamTimer timer;
  launch_(stream_.get());
  timer.start(stream_.get());
  for (int i = 0; i < launches; ++i) launch_(stream_.get());
  timer.stop(stream_.get());
  return timer.elapsed_ms() * 1e3 / launches;
}

Spread spread_of(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return {quantile(samples, 0.5), quantile(samples, 0.1), quantile(samples, 0.9)};
}

}  // namespace fa2::tools
