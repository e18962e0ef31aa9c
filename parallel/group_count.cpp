// Exposed time, and what a group costs.
#include <parallel/group_count.h>

#include <algorithm>
#include <cmath>

namespace fa2 {
namespace {

constexpr std::int64_t kTileRows = 128, kTilesPerSm = 4;
constexpr int kMostGroups = 8;
/// So many bytes arrive over NVLink in the time that a group costs on two H200s, which have most of it in their last waves (docs/kernel-notes.md).
/// With n groups bytes / n are exposed, and the cost of n groups is least if n^2 groups cost as much as all bytes.
constexpr double kBytesOfGroup = 16e6;

}  // namespace

int group_count(const AttentionProblem& p, std::int64_t queries, std::int64_t bytes, int sm_count) {
  const std::int64_t batch = p.varlen ? 1 : p.batch, units = batch > 1 ? batch : p.heads_kv;
  const std::int64_t tiles = batch * p.heads_q * ((queries + kTileRows - 1) / kTileRows);
  const std::int64_t most = std::clamp<std::int64_t>(tiles / (kTilesPerSm * std::max(sm_count, 1)), 1,
                                                     std::min<std::int64_t>(kMostGroups, units));
  const auto best = static_cast<std::int64_t>(std::sqrt(static_cast<double>(bytes) / kBytesOfGroup));
  int count = static_cast<int>(std::clamp<std::int64_t>(best, 1, most));
  while (units % count != 0) --count;
  return count;
}

}  // namespace fa2
