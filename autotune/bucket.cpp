// Buckets: what a tuning record may speak for.
#include <autotune/bucket.h>
#include <fmt/format.h>
#include <generator/kernel_spec.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace fa2 {
namespace {

int rounded_log2(double value) {
  return static_cast<int>(std::lround(std::log2(std::max(1.0, value))));
}

std::uint64_t power_of_two(int exponent) {
  return std::uint64_t{1} << std::clamp(exponent, 0, 63);
}

}  // namespace

Bucket bucket_of(const AttentionProblem& problem) {
  const AttentionProblem p = problem.normalized();
  const auto heads_q = static_cast<double>(p.heads_q);
  Bucket bucket;
  bucket.traits = to_string(traits_of(p));
  bucket.group_log2 = rounded_log2(heads_q / static_cast<double>(std::max<std::int64_t>(1, p.heads_kv)));
  bucket.seqlen_q_log2 = rounded_log2(static_cast<double>(p.seqlen_q));
  bucket.seqlen_k_log2 = rounded_log2(static_cast<double>(p.seqlen_k));
  bucket.heads_log2 = rounded_log2(static_cast<double>(p.batch) * heads_q);
  return bucket;
}

AttentionProblem problem_of(const Bucket& bucket, const AttentionProblem& traits) {
  const auto size = [](int exponent) {
    constexpr int kMost = 30;  // a problem's lengths have 31 bits
    return std::int64_t{1} << std::clamp(exponent, 0, kMost);
  };
  AttentionProblem p = traits.normalized();
  p.heads_kv = 1;
  p.heads_q = size(bucket.group_log2);
  p.batch = size(bucket.heads_log2 - bucket.group_log2);
  p.seqlen_q = size(bucket.seqlen_q_log2);
  p.seqlen_k = size(bucket.seqlen_k_log2);
  return p;
}

std::string to_string(const Bucket& bucket) {
  return fmt::format("{} group ~{} seqlen ~{}x{} batch*heads ~{}", bucket.traits,
                     power_of_two(bucket.group_log2), power_of_two(bucket.seqlen_q_log2),
                     power_of_two(bucket.seqlen_k_log2), power_of_two(bucket.heads_log2));
}

std::optional<int> distance(const Bucket& a, const Bucket& b) {
  if (a.traits != b.traits) return std::nullopt;
  return std::abs(a.group_log2 - b.group_log2) + std::abs(a.seqlen_q_log2 - b.seqlen_q_log2) +
         std::abs(a.seqlen_k_log2 - b.seqlen_k_log2) + std::abs(a.heads_log2 - b.heads_log2);
}

}  // namespace fa2
