// The configs of forward_sm90 by head dim, from sweeps on an H100 (docs/kernel-notes.md).
#include <core/text_reads.h>
#include <fa2/score_text.h>
#include <generator/head_packing.h>
#include <generator/kernels/forward_sm90.h>
#include <generator/kernels/forward_time.h>
#include <generator/kernels/heuristic_table.h>
#include <generator/kernels/key_map_rules.h>
#include <generator/kernels/score_tile_rules.h>
#include <generator/key_value_format.h>
#include <generator/sequences.h>
#include <generator/visible_keys.h>

#include <algorithm>
#include <optional>
#include <templates/attention/common/tile_schedule.cuh>

namespace fa2 {
namespace {

constexpr int kWarpgroupRows = 64, kMostRows = 192;  // of a tile
constexpr int kTileOfChunks = 128;
constexpr std::int64_t kFewTiles = 132;  // no more than an H100 has SMs
/// Keys and values of a short sequence: an SM alone reads them in 25 us.
constexpr std::int64_t kShortBytes = 1'250'000;
/// Splits must take this share of the time of whole tiles: estimates are not exact, and whole tiles lose less by it.
constexpr double kWorthSplitting = 0.9;
constexpr KernelConfig kSafe{.q_buffers = 1, .overlap = 1};                            ///< for completed()
constexpr KernelConfig kGuessing{.q_buffers = 2, .overlap = 1, .speculative_max = 1};  ///< for completed()
constexpr KernelConfig kSplit{.q_buffers = 1, .schedule = kSplitKeys, .overlap = 1};   ///< for completed()

int wider_dim(const AttentionTraits& traits) {
  return std::max(traits.head_dim, traits.head_dim_v);
}

/// Whether texts change scores.
bool changes_scores(const AttentionTraits& traits) {
  if (traits.score_text == 0) return false;
  const ScoreTexts& texts = score_texts(traits.score_text);
  return !texts.bias.text.empty() || !texts.mod.text.empty();
}

/// Whether texts read captured tensors for each score, which takes registers for addresses.
bool reads_tensors(const AttentionTraits& traits) {
  return traits.score_text != 0 && !score_tile_rules::has_capture(traits) &&
         scores_read_tensors(score_texts(traits.score_text));
}

/// Whether what a mask shows is known by the device alone, until it runs.
bool captures_mask(const AttentionTraits& traits) {
  return has_mask_text(traits) && reads_of_mask(score_texts(traits.score_text)).captures;
}

/// Completes a config of forward_sm90 with the fields that follow from the problem and the GPU.
KernelConfig completed(const AttentionTraits& traits, const Arch& arch, int warps, int tile_n,
                       KernelConfig c) {
  c.kernel = KernelId::forward_sm90;
  c.tile_m = 16 * warps, c.tile_n = tile_n, c.warps = warps;
  if (c.schedule == kOneTileEach) c.schedule = kDynamicPersistent;
  c.score_tiles = score_tile_rules::has_capture(traits) && !splits_keys(c) ? 1 : 0;
  c.skip_masked = has_edges(traits) && c.score_tiles == 0;
  c.stages = forward_sm90::most_stages(traits, c, arch);
  return c;
}

/// Returns a config with tiles of one warpgroup, two on an SM, that do not split keys.
KernelConfig small_tiles(const AttentionTraits& traits, const Arch& arch, int tile_n) {
  return completed(traits, arch, 4, tile_n,
                   {.ctas_per_sm = 2, .q_buffers = 1, .overlap = 1, .speculative_max = 1});
}

KernelConfig small_tiles(const AttentionTraits& traits, const Arch& arch) {
  return small_tiles(traits, arch, wider_dim(traits) > 64 ? 64 : 128);
}

/// Returns the configs for few queries, where only the time of reading keys and values counts: one that splits keys, and one that
/// does not.
std::vector<KernelConfig> decoding_configs(const AttentionTraits& traits, const Arch& arch) {
  KernelConfig split_twice = kSplit;
  split_twice.ctas_per_sm = 2;
  const KernelConfig split = wider_dim(traits) > 128
                                 ? completed(traits, arch, 8, 64, kSplit)
                                 : completed(traits, arch, 4, traits.dropout ? 64 : 128, split_twice);
  return {split, small_tiles(traits, arch)};
}

/// Returns the configs for prefill chunks.
std::vector<KernelConfig> chunk_configs(const AttentionTraits& traits, const Arch& arch) {
  const bool is_wide = wider_dim(traits) > 128;  // guessing a maximum would spill
  KernelConfig split = kSplit;
  split.speculative_max = is_wide ? 0 : 1;
  return {completed(traits, arch, kTileOfChunks / 16, is_wide || traits.dropout ? 64 : 128, split)};
}

/// Returns the config for everything that others do not fit. Above head dim 192, a producer that gathers leaves registers for
/// 64 keys with plain scores alone.
KernelConfig safest(const AttentionTraits& traits, const Arch& arch) {
  const bool is_plain = !traits.softcap && !traits.alibi && !traits.dropout;
  const bool lacks_registers = wider_dim(traits) > 192 && gathers_keys(traits) && !is_plain;
  return completed(traits, arch, 8, lacks_registers ? 48 : 64, kSafe);
}

/// For head dims above 192.
HeuristicTable table_of_widest(const AttentionTraits& traits, const Arch& arch) {
  const auto exact = [&](int tile_n) { return completed(traits, arch, 8, tile_n, kSafe); };
  const KernelConfig safe = safest(traits, arch);
  // TMA brings 80 keys from pages in pieces of 16 rows or fewer, and 64 keys in larger ones. Factors of keys, and chunks
  // of sequences whose lengths only the device knows, take a register more.
  const bool has_chunks = traits.varlen && traits.attention_chunk;
  if (reads_tensors(traits)) return {{kMostQueries, {exact(32)}}};
  if (changes_scores(traits)) return {{kMostQueries, {exact(48), exact(32)}}};
  if (has_mask_text(traits)) return {{kMostQueries, {safe, exact(48)}}};
  if (wider_dim(traits) < 256 || traits.page_size > 0 || traits.kv_type != KvType::same || has_chunks)
    return {{kMostQueries, {safe, exact(48)}}};
  return {{has_edges(traits) ? 1536 : 768, {safe, exact(48)}}, {kMostQueries, {exact(80), safe, exact(48)}}};
}

/// Whether scores are multiplied by a factor of their keys, before a softcap or a bias. That takes registers.
bool multiplies_keys(const AttentionTraits& traits) {
  return traits.kv_type != KvType::same && (traits.softcap || traits.alibi);
}

/// For head dims of at most 64. See table_of().
HeuristicTable table_of_narrow(const AttentionTraits& traits, const Arch& arch) {
  const bool reads = reads_tensors(traits);
  const KernelConfig safe = safest(traits, arch);
  // Rows that are not a whole swizzle of 128 bytes need more registers for addresses; so do a bias and dropout. A producer
  // that gathers rows leaves fewer. The largest of capped scores takes the most.
  const bool is_lean = wider_dim(traits) == 64 && !traits.alibi && !traits.dropout && !gathers_keys(traits);
  const bool is_rich = multiplies_keys(traits) || (traits.max_logits && traits.softcap);
  const int tile_n = reads ? 80 : is_rich ? 96 : 128;
  const KernelConfig three = completed(traits, arch, 12, is_lean ? tile_n : std::min(tile_n, 112),
                                       {.q_buffers = 2, .overlap = 1, .pingpong = 1, .speculative_max = 1});
  const auto two = [&](int columns) {
    return completed(traits, arch, 8, reads ? 48 : columns,
                     {.ctas_per_sm = 2, .q_buffers = 2, .speculative_max = 1});
  };
  const HeuristicRange any{kMostQueries, {three, safe}};
  if (has_edges(traits)) return {{1536, {two(64), three, safe}}, any};
  return {{768, {two(64), three, safe}},
          {1536, {two(traits.varlen || traits.dropout ? 64 : 80), three, safe}},
          any};
}

/// For long sequences, three warpgroups hide each other's softmax. For short ones, whose tiles have few KV blocks, the begin and
/// end of tiles must be hidden (docs/measurements).
HeuristicTable table_of(const AttentionTraits& traits, const Arch& arch) {
  const int head_dim = wider_dim(traits);
  const auto with = [&](int warps, int tile_n, const KernelConfig& c) {
    return completed(traits, arch, warps, tile_n, c);
  };
  const KernelConfig safe = safest(traits, arch);
  const KernelConfig in_turns{.q_buffers = 2, .overlap = 1, .pingpong = 1, .speculative_max = 1};
  const bool multiplies = multiplies_keys(traits), reads = reads_tensors(traits);
  // Tiles of a capture take the memory of a second buffer of queries, and warpgroups that wait for them keep no turns.
  const KernelConfig guessing_once{.q_buffers = 1, .overlap = 1, .speculative_max = 1};
  if (score_tile_rules::has_capture(traits) && head_dim <= 128)
    return {{kMostQueries,
             {with(head_dim <= 64 ? 12 : 8, 128, guessing_once), with(8, 128, guessing_once),
              with(8, 96, guessing_once), safe}}};
  if (head_dim <= 64) return table_of_narrow(traits, arch);
  const KernelConfig wide = with(8, reads ? 96 : 128, kGuessing);
  if (head_dim <= 96 && reads) return {{kMostQueries, {wide, safe}}};
  if (head_dim <= 96)
    return {{kMostQueries, {with(12, traits.dropout || multiplies ? 80 : 96, in_turns), wide, safe}}};
  if (head_dim <= 128) {
    // TMA brings 80 keys from pages in pieces of 16 rows or fewer, and 64 keys in larger ones.
    const KernelConfig three =
        traits.page_size > 0 ? with(12, 64, kGuessing) : with(12, reads ? 64 : 80, in_turns);
    // Tiles that see little beside the blocks at the edges of a mask lose less if these are fewer.
    if (has_mask_text(traits)) return {{kMostQueries, {wide, three, safe}}};
    const HeuristicRange any{kMostQueries, {three, wide, safe}};
    if (has_edges(traits)) return {{3072, {with(12, 64, kGuessing), three, wide, safe}}, any};
    return {{1536, {wide, three, safe}}, any};
  }
  if (head_dim <= 192) return {{kMostQueries, {with(8, reads ? 80 : 96, guessing_once), safe}}};
  return table_of_widest(traits, arch);
}

/// Returns the length of the square problem whose queries see as many keys on average.
std::int64_t square_length(const AttentionProblem& problem) {
  const AttentionProblem p = with_mean_lengths(problem);
  if (p.seqlen_q == 0) return 0;
  const auto seen =
      static_cast<std::int64_t>(visible_pairs(p) / static_cast<double>(p.seqlen_q) * (has_edges(p) ? 2 : 1));
  return std::min(kMostQueries, has_edges(p) ? seen - 1 : seen);
}

bool is_short(const AttentionProblem& p) {
  return visible_keys(p) * key_value_format(p).bytes_per_key() <= kShortBytes;
}

std::vector<KernelConfig> for_few_rows(const PlannedProblem& p, const AttentionTraits& traits,
                                       const Arch& arch) {
  std::vector<KernelConfig> configs = decoding_configs(traits, arch);
  // The one long sequence among short ones would take too long.
  const bool splits = p.batch_invariant || (p.varlen && !is_short(p)) ||
                      estimated_time(p, configs[0]) < estimated_time(p, configs[1]);
  if (!splits) std::erase_if(configs, splits_keys);
  configs.push_back(safest(traits, arch));
  return configs;
}

/// Moves a guessing config to the front if its tiles fit the rows or the GPU much better than those of the first.
void put_fastest_first(const AttentionProblem& p, std::vector<KernelConfig>& configs) {
  constexpr double kMuch = 0.85;
  std::size_t fastest = 0;
  for (std::size_t i = 1; i < configs.size(); ++i) {
    if (configs[i].speculative_max == 1 &&
        estimated_time(p, configs[i]) < estimated_time(p, configs[fastest]) * (fastest == 0 ? kMuch : 1))
      fastest = i;
  }
  std::rotate(configs.begin(), configs.begin() + static_cast<std::ptrdiff_t>(fastest),
              configs.begin() + static_cast<std::ptrdiff_t>(fastest) + 1);
}

/// Returns the config with the largest tiles that divide the blocks of a mask, so that none is shown in part.
std::optional<KernelConfig> config_for_blocks(const AttentionTraits& traits, const Arch& arch) {
  if (!has_mask_text(traits) || reads_tensors(traits)) return std::nullopt;
  const bool is_wide = wider_dim(traits) > 128;
  std::vector<KernelConfig> configs{completed(traits, arch, 8, 64, is_wide ? kSafe : kGuessing)};
  if (!is_wide) {
    configs.insert(configs.begin(), completed(traits, arch, 8, 128, kGuessing));
    configs.push_back(small_tiles(traits, arch, 64));
  }
  const MaskBlock block = score_texts(traits.score_text).mask_block;
  const auto divides = [&](const KernelConfig& c) {
    return block.queries % c.tile_m == 0 && block.keys % c.tile_n == 0;
  };
  const auto found = std::ranges::find_if(configs, divides);
  return found == configs.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

namespace forward_sm90 {

std::vector<KernelConfig> heuristic(const PlannedProblem& p, const Arch& arch) {
  if (arch.interpreted) return {};  // slower there than forward_sm80
  const AttentionTraits traits = traits_of(p);
  const std::int64_t rows = packed_rows(head_packing(p, kMostRows), with_mean_lengths(p).seqlen_q);
  if (rows <= kWarpgroupRows) return for_few_rows(p, traits, arch);
  std::vector<KernelConfig> configs =
      line_for(table_of(traits, arch), std::max<std::int64_t>(kWarpgroupRows + 1, square_length(p)));
  // Beside tiles of a capture in float32 few slots are left. With two, products wait for loads.
  if (score_tile_rules::has_capture(traits))
    std::stable_partition(configs.begin(), configs.end(),
                          [](const KernelConfig& config) { return config.stages > 2; });
  const KernelConfig small = small_tiles(traits, arch);  // spreads few rows over the GPU
  if (!p.batch_invariant && wider_dim(traits) <= 128 && is_short(p) &&
      most_query_tiles(p, small) <= kFewTiles)
    configs.push_back(small);
  put_fastest_first(p, configs);
  if (!p.batch_invariant) {
    const std::vector<KernelConfig> chunks = chunk_configs(traits, arch);
    KernelConfig whole = configs[0];
    whole.tile_n = chunks[0].tile_n;  // so that pages, which change it, change no decision
    if (estimated_time(p, chunks[0]) < kWorthSplitting * estimated_time(p, whole))
      configs.insert(configs.begin(), chunks.begin(), chunks.end());
  }
  const auto of_blocks = config_for_blocks(traits, arch);
  if (of_blocks) configs.insert(configs.begin(), *of_blocks);
  key_map_rules::use_maps_of_forward(p, configs);
  // Until it runs nobody knows what a mask shows that captures tensors. Most of these tell documents, trees or images apart.
  const auto small_blocks = config_for_partial_masks(p, arch);
  if (small_blocks && captures_mask(traits) && !of_blocks) configs.insert(configs.begin(), *small_blocks);
  return configs;
}

std::optional<KernelConfig> config_for_partial_masks(const PlannedProblem& p, const Arch& arch) {
  const AttentionTraits traits = traits_of(p);
  if (arch.interpreted || wider_dim(traits) > 128 || p.batch_invariant) return std::nullopt;
  std::vector<KernelConfig> small{small_tiles(traits, arch)};
  key_map_rules::use_maps_of_forward(p, small);
  return small[0].key_map == 0 ? std::nullopt : std::optional(small[0]);
}

HeuristicLimits heuristic_limits(const AttentionTraits& traits, const Arch& arch) {
  if (arch.interpreted) return {};
  HeuristicLimits limits{.packed_rows = kMostRows,
                         .queries = key_map_rules::with_limit(traits, limits_of(table_of(traits, arch)))};
  return limits;
}

}  // namespace forward_sm90
}  // namespace fa2
