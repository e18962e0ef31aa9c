// Times bursts of launches between two events.
#include <generator/visible_keys.h>
#include <reference/sequences.h>
#include <tools/measure.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace fa2::tools {
namespace {

constexpr double kBurstUs = 12e3;
constexpr double kMostLaunches = 2000;

/// Returns the visible pairs of queries and keys. `p` must be normalized.
double pairs_of(const AttentionProblem& p) {
  const bool is_plain_causal = p.mask != MaskKind::none && !p.window_left;
  if (is_plain_causal && p.seqlen_q == p.seqlen_k) {
    const auto n = static_cast<double>(p.seqlen_q);
    return n * n / 2;
  }
  return visible_pairs(p);
}

double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const std::size_t low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return std::lerp(sorted[low], sorted[high], at - std::floor(at));
}

}  // namespace

double flops_of(const AttentionProblem& problem) {
  const AttentionProblem p = problem.normalized();
  return 2.0 * static_cast<double>(p.batch * p.heads_q) * (p.head_dim + p.head_dim_v) * pairs_of(p);
}

double flops_of(const AttentionProblem& problem, const AttentionArgs& tables) {
  if (!problem.varlen) return flops_of(problem);
  double flops = 0;
  for (const reference::Sequence& sequence : reference::sequences_of(problem, tables))
    flops += flops_of(reference::problem_of(problem, sequence));
  return flops;
}

double tflops(const AttentionProblem& problem, double us) {
  return tflops(flops_of(problem), us);
}

double tflops(double flops, double us) {
  return us > 0 ? flops / us * 1e-6 : 0;
}

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
