// Key tiles alone may be too few to fill a GPU, or a long one may begin last. The choice replays a launch: blocks begin in order,
// each on the SM that is free first. And long tiles of unequal length drift apart, until each reads its queries from memory
// (docs/kernel-notes.md).
#include <generator/kernel_kind.h>
#include <generator/kernels/rules.h>
#include <generator/sequences.h>
#include <generator/visible_keys.h>
#include <planning/attention_params.h>
#include <planning/key_parts.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <vector>

namespace fa2 {
namespace {

// Durations in steps, of which one takes about 2 us on an H100 (docs/kernel-notes.md).
constexpr double kBlock = 3;  // a block's start and end
constexpr double kPart = 3;   // storing a part's sums, and adding them up
constexpr double kWorthSharing = 0.95;

constexpr std::int64_t kMostReplayed = 2048;  // more leave few SMs without work, and take long to replay
constexpr std::int64_t kMostParts = 64;
constexpr std::int64_t kMemory = std::int64_t{128} << 20;
constexpr std::int64_t kL2 = 36'000'000;  // bytes for a part's queries, dO and dQ, of 50 MB

/// Returns the bytes of a query, its dO and its dQ accumulator.
std::int64_t bytes_per_query(const AttentionProblem& p) {
  return 6 * p.head_dim + 2 * p.head_dim_v;
}

/// Returns the steps of the key tiles of one head.
std::vector<std::int64_t> steps_of_tiles(const AttentionProblem& p, const KernelConfig& config) {
  std::vector<std::int64_t> steps;
  for (std::int64_t key = 0; key < p.seqlen_k; key += config.tile_m) {
    const std::int64_t keys = std::min<std::int64_t>(config.tile_m, p.seqlen_k - key);
    const VisibleRows queries = visible_queries(p, {key, keys});
    const std::int64_t first = queries.first / config.tile_n;
    const std::int64_t end = (queries.first + queries.count + config.tile_n - 1) / config.tile_n;
    steps.push_back(queries.count == 0 ? 0 : (end - first) * (p.heads_q / p.heads_kv));
  }
  return steps;
}

/// A launch, as BatchedTiles orders it (templates/attention/common/scheduler.cuh).
struct Launch {
  std::vector<std::int64_t> steps;  ///< of the tiles of one head
  std::int64_t heads;
  std::int64_t heads_per_section;
  std::int64_t tiles_at_once;  ///< or parts of tiles

  /// Returns when the last block ends.
  double end(const KeyParts& parts) const {
    std::priority_queue<double, std::vector<double>, std::greater<>> free_at;
    for (std::int64_t i = 0; i < tiles_at_once; ++i) free_at.push(0);
    double last = 0;
    for (std::int64_t head = 0; head < heads; head += heads_per_section) {
      const std::int64_t in_section = std::min(heads_per_section, heads - head);
      for (std::int64_t part = 0; part < parts.count; ++part) {
        for (const std::int64_t of_tile : steps) {
          const std::int64_t share = std::min(parts.steps, of_tile - part * parts.steps);
          if (part > 0 && share <= 0) continue;
          for (std::int64_t i = 0; i < in_section; ++i) {
            const double end =
                free_at.top() + kBlock + (share < of_tile ? kPart : 0) + static_cast<double>(share);
            free_at.pop();
            free_at.push(end);
            last = std::max(last, end);
          }
        }
      }
    }
    return last;
  }
};

/// Returns the most parts for which there is memory.
std::int64_t most_parts(const AttentionProblem& p, const KernelConfig& fused, std::int64_t tiles) {
  const std::int64_t columns =
      padded_dim(static_cast<int>(p.head_dim)) + padded_dim(static_cast<int>(p.head_dim_v));
  const std::int64_t of_dq = 4 * p.batch * p.heads_q * p.seqlen_q * p.head_dim;
  return std::min(kMostParts, std::max(kMemory, of_dq / 2 * 3) / (4 * tiles * fused.tile_m * columns));
}

/// Returns how many parts keep tiles of unequal length from drifting further apart than L2 holds.
std::int64_t parts_for_l2(const AttentionProblem& p, const KernelConfig& config,
                          const std::vector<std::int64_t>& steps) {
  const auto [least, most] = std::ranges::minmax(steps);
  const std::int64_t bytes = most * config.tile_n * bytes_per_query(p);
  return least == most ? 1 : (bytes + kL2 - 1) / kL2;
}

}  // namespace

std::int64_t kv_heads_per_section(const AttentionProblem& p, const KernelConfig& config) {
  const std::int64_t group = p.heads_q / p.heads_kv, section_bytes = kind_of(config).section_bytes;
  const std::int64_t most = std::max<std::int64_t>(1, heads_per_section(p, config) / group);
  // Kernels without section_bytes wait for memory anyway, and take as many heads as the forward.
  if (section_bytes == 0 || most == 1) return most;
  // L2 must hold the heads' queries, dO and dQ accumulators.
  const std::int64_t head_bytes = std::max<std::int64_t>(1, group * p.seqlen_q * bytes_per_query(p));
  return std::clamp<std::int64_t>(section_bytes / head_bytes, 1, most);
}

KeyParts key_parts(const AttentionProblem& problem, const KernelConfig& fused, int sm_count) {
  const std::int64_t tiles = most_key_tiles(problem, fused);
  if (pass_of(fused) != KernelPass::dq_dk_dv || tiles == 0 || sm_count == 0) return {};
  const AttentionProblem p = with_mean_lengths(problem);
  const Launch launch{.steps = steps_of_tiles(p, fused),
                      .heads = p.batch * p.heads_kv,
                      .heads_per_section = kv_heads_per_section(problem, fused),
                      .tiles_at_once = std::int64_t{sm_count} * fused.ctas_per_sm /
                                       kind_of(fused).cluster(traits_of({p, {}}))};
  const std::int64_t longest = std::ranges::max(launch.steps);
  const auto of = [&](std::int64_t count) {
    if (count <= 1) return KeyParts{};
    return KeyParts{
        count, (longest + count - 1) / count,
        std::min(launch.heads_per_section, launch.heads) * static_cast<std::int64_t>(launch.steps.size())};
  };
  const std::int64_t most = std::min(longest, most_parts(p, fused, tiles));
  const std::int64_t fewest = std::max<std::int64_t>(1, std::min(most, parts_for_l2(p, fused, launch.steps)));
  const auto after = [](std::int64_t count) { return count + (count + 7) / 8; };
  KeyParts best = of(fewest);
  if ((fewest + 1) * tiles > kMostReplayed) return best;
  double least = kWorthSharing * launch.end(best);
  for (std::int64_t count = after(fewest); count <= std::min(most, kMostReplayed / tiles);
       count = after(count)) {
    const KeyParts parts = of(count);
    const double end = launch.end(parts);
    if (end < least) best = parts, least = end;
  }
  return best;
}

}  // namespace fa2
