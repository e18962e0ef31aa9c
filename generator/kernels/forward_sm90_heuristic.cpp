// The configs of forward_sm90 by head dim, from sweeps on an H100 (docs/kernel-notes.md).
#include <generator/head_packing.h>
#include <generator/kernels/forward_sm90.h>
#include <generator/kernels/heuristic_table.h>
#include <generator/sequences.h>
#include <generator/visible_keys.h>

#include <algorithm>
#include <cmath>
#include <templates/attention/common/tile_schedule.cuh>

namespace fa2 {
namespace {

constexpr int kWarpgroupRows = 64, kMostRows = 192;  // of a tile
constexpr int kTileOfChunks = 128;
constexpr std::int64_t kLeastKeysOfChunks = 2048;
constexpr KernelConfig kSplit{.q_buffers = 1, .schedule = kSplitKeys, .overlap = 1};  ///< for completed()

int wider_dim(const AttentionTraits& traits) {
  return std::max(traits.head_dim, traits.head_dim_v);
}

/// Returns whether to split KV: if tiles are too few to fill the GPU, or differ in length. Enough tiles of one length read keys and
/// values at the speed of memory without a merge.
bool shares_keys(const AttentionProblem& p, std::int64_t rows) {
  if (p.batch_invariant) return true;
  constexpr std::int64_t kEnoughTiles = 96;
  return rows <= kWarpgroupRows && (p.varlen || p.batch * p.heads_kv < kEnoughTiles);
}

/// For prefill chunks: returns whether splitting KV takes less time than whole tiles, some of which leave SMs idle while others end.
/// Times are in keys that an SM passes over with a tile of 192 rows (docs/kernel-notes.md).
bool pays_to_split(const AttentionProblem& problem) {
  constexpr double kSms = 132;           // of an H100 or H200: a choice may not depend on the GPU
  constexpr double kSplitKernel = 1.15;  // its tiles are smaller, and blocks of keys have fewer slots
  constexpr double kMerge = 1400;
  const AttentionProblem p = with_mean_lengths(problem);
  const auto keys = static_cast<double>(std::min(visible_keys(p), window_width(p).value_or(kMostQueries)));
  if (keys < kLeastKeysOfChunks) return false;
  const double seen = visible_pairs(p) / (static_cast<double>(p.seqlen_q) * keys);
  const double tiles = static_cast<double>(most_query_tiles(p, {.tile_m = kMostRows})) / kSms;
  // Tiles of unequal length leave no gaps if there are enough of them: the longest come first.
  const double whole = seen < 0.75 ? std::max(1.0, tiles * seen) : std::ceil(tiles);
  return tiles * seen * kSplitKernel * keys + kMerge < whole * keys;
}

/// Completes a config of forward_sm90 with the fields that follow from the problem and the GPU.
KernelConfig completed(const AttentionTraits& traits, const Arch& arch, int warps, int tile_n,
                       KernelConfig c) {
  c.kernel = KernelId::forward_sm90;
  c.tile_m = 16 * warps, c.tile_n = tile_n, c.warps = warps;
  if (c.schedule == kOneTileEach) c.schedule = kDynamicPersistent;
  c.skip_masked = has_edges(traits);
  c.stages = forward_sm90::most_stages(traits, c, arch);
  return c;
}

/// Returns the configs for few queries, where only the time of reading keys and values counts.
std::vector<KernelConfig> decoding_configs(const AttentionTraits& traits, const Arch& arch) {
  const int head_dim = wider_dim(traits);
  const KernelConfig whole{.ctas_per_sm = 2, .q_buffers = 1, .overlap = 1, .speculative_max = 1};
  if (head_dim > 128) return {completed(traits, arch, 8, 64, kSplit), completed(traits, arch, 4, 64, whole)};
  KernelConfig split_twice = kSplit;
  split_twice.ctas_per_sm = 2;
  return {completed(traits, arch, 4, traits.dropout ? 64 : 128, split_twice),
          completed(traits, arch, 4, head_dim > 64 ? 64 : 128, whole)};
}

/// Returns the configs for prefill chunks.
std::vector<KernelConfig> chunk_configs(const AttentionTraits& traits, const Arch& arch) {
  const bool is_wide = wider_dim(traits) > 128;  // guessing a maximum would spill
  KernelConfig split = kSplit;
  split.speculative_max = is_wide ? 0 : 1;
  return {completed(traits, arch, kTileOfChunks / 16, is_wide || traits.dropout ? 64 : 128, split)};
}

/// For long sequences, three warpgroups hide each other's softmax. For short ones, whose tiles have few KV blocks, the begin and
/// end of tiles must be hidden (docs/measurements).
HeuristicTable table_of(const AttentionTraits& traits, const Arch& arch) {
  const int head_dim = wider_dim(traits);
  const auto with = [&](int warps, int tile_n, const KernelConfig& c) {
    return completed(traits, arch, warps, tile_n, c);
  };
  const KernelConfig safe = with(8, 64, {.q_buffers = 1, .overlap = 1});
  const KernelConfig guessing{.q_buffers = 2, .overlap = 1, .speculative_max = 1};
  const KernelConfig in_turns{.q_buffers = 2, .overlap = 1, .pingpong = 1, .speculative_max = 1};
  HeuristicRange few{kWarpgroupRows, decoding_configs(traits, arch)};
  few.best_first.push_back(safe);
  if (head_dim <= 64) {
    // Rows that are not a whole swizzle of 128 bytes need more registers for addresses; so do a bias and dropout. A producer
    // that gathers rows leaves fewer.
    const bool is_lean =
        head_dim == 64 && !traits.alibi && !traits.dropout && !gathers_keys(traits.page_size);
    const KernelConfig three = with(12, is_lean ? 128 : 112, in_turns);
    const auto two = [&](int tile_n) {
      return with(8, tile_n, {.ctas_per_sm = 2, .q_buffers = 2, .speculative_max = 1});
    };
    const HeuristicRange any{kMostQueries, {three, safe}};
    if (has_edges(traits)) return {few, {1536, {two(64), three, safe}}, any};
    return {few,
            {768, {two(64), three, safe}},
            {1536, {two(traits.varlen || traits.dropout ? 64 : 80), three, safe}},
            any};
  }
  const KernelConfig wide = with(8, 128, guessing);
  if (head_dim <= 96)
    return {few, {kMostQueries, {with(12, traits.dropout ? 80 : 96, in_turns), wide, safe}}};
  if (head_dim <= 128) {
    const KernelConfig three = with(12, 80, in_turns);
    const HeuristicRange any{kMostQueries, {three, wide, safe}};
    if (has_edges(traits)) return {few, {3072, {with(12, 64, guessing), three, wide, safe}}, any};
    return {few, {1536, {wide, three, safe}}, any};
  }
  const KernelConfig guessing_once{.q_buffers = 1, .overlap = 1, .speculative_max = 1};
  if (head_dim <= 192) return {few, {kMostQueries, {with(8, 96, guessing_once), safe}}};
  const auto exact = [&](int tile_n) { return with(8, tile_n, {.q_buffers = 1, .overlap = 1}); };
  if (head_dim < 256) return {few, {kMostQueries, {safe, exact(48)}}};
  return {few, {6144, {safe, exact(48)}}, {kMostQueries, {exact(80), safe, exact(48)}}};
}

}  // namespace

namespace forward_sm90 {

std::vector<KernelConfig> heuristic(const PlannedProblem& p, const Arch& arch) {
  if (arch.interpreted) return {};  // slower there than forward_sm80
  const AttentionTraits traits = traits_of(p);
  const std::int64_t queries = with_mean_lengths(p).seqlen_q;
  const std::int64_t rows = packed_rows(head_packing(p, kWarpgroupRows), queries);
  // More rows than a warpgroup's are no decoding, however few queries they are.
  const std::int64_t length =
      table_length(p, rows <= kWarpgroupRows ? rows : std::max<std::int64_t>(queries, kWarpgroupRows + 1));
  std::vector<KernelConfig> configs = line_for(table_of(traits, arch), length);
  if (!shares_keys(p, rows)) std::erase_if(configs, splits_keys);
  if (length > kWarpgroupRows && !p.batch_invariant && pays_to_split(p)) {
    const auto chunks = chunk_configs(traits, arch);
    configs.insert(configs.begin(), chunks.begin(), chunks.end());
  }
  return configs;
}

HeuristicLimits heuristic_limits(const AttentionTraits& traits, const Arch& arch) {
  if (arch.interpreted) return {};
  HeuristicLimits limits{.packed_rows = kMostRows, .queries = limits_of(table_of(traits, arch))};
  limits.queries.push_back(kLeastKeysOfChunks);
  return limits;
}

}  // namespace forward_sm90
}  // namespace fa2
