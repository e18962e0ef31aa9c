// Tiles of 128 queries, counted.
#include <parallel/group_count.h>

#include <algorithm>

namespace fa2 {
namespace {

constexpr std::int64_t kTileRows = 128, kTilesPerSm = 4;
constexpr int kMostGroups = 8;

}  // namespace

int group_count(const AttentionProblem& p, std::int64_t queries, int sm_count) {
  const std::int64_t batch = p.varlen ? 1 : p.batch, units = batch > 1 ? batch : p.heads_kv;
  const std::int64_t tiles = batch * p.heads_q * ((queries + kTileRows - 1) / kTileRows);
  const std::int64_t most = std::clamp<std::int64_t>(tiles / (kTilesPerSm * std::max(sm_count, 1)), 1,
                                                     std::min<std::int64_t>(kMostGroups, units));
  int count = static_cast<int>(most);
  while (units % count != 0) --count;
  return count;
}

}  // namespace fa2
