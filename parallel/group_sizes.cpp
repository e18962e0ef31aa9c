// Exposed time, and what a group costs.
#include <parallel/chunks.h>
#include <parallel/group_sizes.h>

#include <algorithm>
#include <cmath>

namespace fa2 {
namespace {

constexpr std::int64_t kTileRows = 128, kTilesPerSm = 4;
constexpr int kMostGroups = 8;
/// So many bytes arrive over NVLink in the time that a group costs on two H200s, which have most of it in their last waves (docs/kernel-notes.md).
/// With n groups bytes / n are exposed, and the cost of n groups is least if n^2 groups cost as much as all bytes.
constexpr double kBytesOfGroup = 16e6;
/// A quarter first costs less than half. It pays from so many bytes on: with fewer, the rest may not arrive in the quarter's time.
constexpr std::int64_t kBytesOfQuarter = 30'000'000;
constexpr double kTilesPerSmOfQuarter = 1.5;

double tiles_per_sm(const AttentionProblem& p, std::int64_t queries, int sm_count) {
  const std::int64_t batch = p.varlen ? 1 : p.batch;
  const std::int64_t tiles = batch * p.heads_q * ((queries + kTileRows - 1) / kTileRows);
  return static_cast<double>(tiles) / std::max(sm_count, 1);
}

}  // namespace

std::int64_t group_units(const AttentionProblem& p) {
  return !p.varlen && p.batch > 1 ? p.batch : p.heads_kv;
}

int group_count(const AttentionProblem& p, std::int64_t queries, std::int64_t bytes, int sm_count) {
  const std::int64_t units = group_units(p);
  const std::int64_t most =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(tiles_per_sm(p, queries, sm_count)) / kTilesPerSm, 1,
                               std::min<std::int64_t>(kMostGroups, units));
  const auto best = static_cast<std::int64_t>(std::sqrt(static_cast<double>(bytes) / kBytesOfGroup));
  int count = static_cast<int>(std::clamp<std::int64_t>(best, 1, most));
  while (units % count != 0) --count;
  return count;
}

int forward_group_count(const AttentionProblem& p, std::int64_t queries, std::int64_t bytes, int sm_count) {
  const std::int64_t units = group_units(p);
  const double first = static_cast<double>(forward_sizes(units, 2).front()) / static_cast<double>(units);
  const bool pays =
      bytes >= kBytesOfQuarter && first * tiles_per_sm(p, queries, sm_count) >= kTilesPerSmOfQuarter;
  return std::max(group_count(p, queries, bytes, sm_count), pays && units > 1 ? 2 : 1);
}

std::vector<std::int64_t> equal_sizes(std::int64_t units, int groups) {
  std::vector<std::int64_t> sizes;
  for (const Slice& part :
       equal_chunks({0, units}, static_cast<int>(std::min<std::int64_t>(groups, units)), 1))
    sizes.push_back(part.size());
  return sizes;
}

std::vector<std::int64_t> forward_sizes(std::int64_t units, int groups) {
  if (groups != 2 || units < 2) return equal_sizes(units, groups);
  const std::int64_t first = std::max<std::int64_t>(units / 4, 1);
  return {first, units - first};
}

}  // namespace fa2
