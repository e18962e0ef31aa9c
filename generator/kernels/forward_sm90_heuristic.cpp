// The configs of forward_sm90 by head dim, from sweeps on an H100 (docs/kernel-notes.md).
#include <generator/head_packing.h>
#include <generator/kernels/forward_sm90.h>
#include <generator/kernels/heuristic_table.h>
#include <generator/sequences.h>
#include <generator/visible_keys.h>

#include <algorithm>
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

/// For prefill chunks: returns whether there are at most 88 tiles, which leave SMs idle, and at least 2,048 keys to split.
bool has_few_tiles(const AttentionProblem& problem) {
  constexpr std::int64_t kFewTiles = 88;
  const AttentionProblem p = with_mean_lengths(problem);
  const std::int64_t keys = std::min(visible_keys(p), window_width(p).value_or(kMostQueries));
  return most_query_tiles(p, {.tile_m = kTileOfChunks}) <= kFewTiles && keys >= kLeastKeysOfChunks;
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
  const bool is_narrow = wider_dim(traits) > 128 || traits.dropout;
  return {completed(traits, arch, kTileOfChunks / 16, is_narrow ? 64 : 128, kSplit)};
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
  if (length > kWarpgroupRows && !p.batch_invariant && has_few_tiles(p)) {
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
