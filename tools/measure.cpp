// Bursts of launches between two events.
#include <tools/measure.h>

#include <algorithm>
#include <cmath>

namespace fa2::tools {
namespace {

constexpr double kBurstUs = 12e3;
constexpr double kMostLaunches = 2000;

double triangle(double n) {
  return n > 0 ? n * (n + 1) / 2 : 0;
}

/// Where query i sees clamp(i + offset + 1, 0, seqlen_k) keys.
double visible_pairs(double seqlen_q, double seqlen_k, double offset) {
  const double up_to_diagonal = triangle(seqlen_q + offset) - triangle(offset);
  const double beyond_end = triangle(seqlen_q + offset - seqlen_k) - triangle(offset - seqlen_k);
  return up_to_diagonal - beyond_end;
}

/// `p` is normalized.
double pairs_of(const AttentionProblem& p) {
  const double seqlen_q = static_cast<double>(p.seqlen_q), seqlen_k = static_cast<double>(p.seqlen_k);
  const bool is_causal = p.mask != MaskKind::none;
  if (is_causal && !p.window_left && p.seqlen_q == p.seqlen_k) return seqlen_q * seqlen_k / 2;
  const double offset = p.mask == MaskKind::causal_top_left ? 0 : seqlen_k - seqlen_q;
  const double right = static_cast<double>(p.window_right.value_or(0));
  const double all = seqlen_q * seqlen_k;
  const double up_to_end =
      is_causal || p.window_right ? visible_pairs(seqlen_q, seqlen_k, offset + right) : all;
  if (!p.window_left) return up_to_end;
  return up_to_end - visible_pairs(seqlen_q, seqlen_k, offset - 1 - static_cast<double>(*p.window_left));
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

double tflops(const AttentionProblem& problem, double us) {
  return us > 0 ? flops_of(problem) / us * 1e-6 : 0;
}

LaunchTimer::LaunchTimer(const AttentionPlan& plan, const AttentionArgs& args, const OwnedStream& stream)
    : plan_(plan), args_(args), stream_(stream) {
  const double us = std::max(time_us(3), 0.1);
  launches_ = static_cast<int>(std::clamp(kBurstUs / us, 1.0, kMostLaunches));
}

double LaunchTimer::time_us(int launches) {
  StreamTimer timer;
  plan_.run(args_, stream_.get());
  timer.start(stream_.get());
  for (int i = 0; i < launches; ++i) plan_.run(args_, stream_.get());
  timer.stop(stream_.get());
  return timer.elapsed_ms() * 1e3 / launches;
}

Spread spread_of(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return {quantile(samples, 0.5), quantile(samples, 0.1), quantile(samples, 0.9)};
}

}  // namespace fa2::tools
