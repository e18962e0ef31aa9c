// A table of configurations by head dim, from sweeps on an H100 (docs/kernel-notes.md); other GPUs get what
// fits them.
#include <autotune/backward_heuristic.h>
#include <autotune/heuristic.h>
#include <autotune/split_heuristic.h>
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/config_space.h>
#include <generator/kernels/forward_sm90.h>
#include <generator/kernels/rules.h>
#include <generator/sequences.h>
#include <generator/visible_keys.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <templates/attention/common/tile_schedule.cuh>
#include <vector>

namespace fa2 {

namespace {

KernelConfig config(int tile_m, int tile_n, int warps, int stages, int q_in_registers = 0) {
  KernelConfig c;
  c.tile_m = tile_m;
  c.tile_n = tile_n;
  c.warps = warps;
  c.stages = stages;
  c.q_in_registers = q_in_registers;
  return c;
}

/// Blocks that share an SM hide each other's barriers and softmax: prefer what leaves room for two.
bool two_fit(const AttentionTraits& traits, const KernelConfig& c, const Arch& arch) {
  return SharedMemoryNeed{arch, shared_bytes(traits, c), 2}.fits();
}

/// One line of a table: what runs for at most so many queries, best first, whether it is valid or not.
struct Range {
  std::int64_t most_queries;  ///< of square sequences; see table_length()
  std::vector<KernelConfig> best_first;
};

constexpr std::int64_t kMostQueries = std::numeric_limits<std::int32_t>::max() - 1023;  // of any problem
constexpr int kWarpgroupRows = 64;
constexpr int kMostPacked = 64;
constexpr int kTileOfChunks = 128;
constexpr std::int64_t kLeastKeysOfChunks = 2048;
constexpr KernelConfig kSplit{.q_buffers = 1, .schedule = kSplitKeys, .overlap = 1};  ///< of main loop 90

/// Keys are shared out where few blocks would have a tile, or tiles of any length. So many tiles of one length read keys and
/// values as fast as memory gives them, and need not be merged; narrow windows leave nothing to share.
bool shares_keys(const AttentionProblem& p, std::int64_t rows) {
  if (p.batch_invariant) return true;
  constexpr std::int64_t kEnoughTiles = 96;
  return rows <= kWarpgroupRows && (p.varlen || p.batch * p.heads_kv < kEnoughTiles);
}

/// Of more rows than the tiles of decoding have: whether they leave many SMs without one, and there are keys to share. In whole
/// tiles a chunk of a prompt over a long cache would take as long as a tile does.
bool has_few_tiles(const AttentionProblem& problem) {
  constexpr std::int64_t kFewTiles = 88;
  const AttentionProblem p = with_mean_lengths(problem);
  const int packed = packed_heads(p, kTileOfChunks);
  const std::int64_t tiles = (p.seqlen_q * packed + kTileOfChunks - 1) / kTileOfChunks;
  const std::int64_t keys = std::min(visible_keys(p), window_width(p).value_or(kMostQueries));
  return p.batch * (p.heads_q / packed) * tiles <= kFewTiles && keys >= kLeastKeysOfChunks;
}

/// A configuration of main loop 90, but for what follows from the problem and the GPU.
KernelConfig sm90_config(const AttentionTraits& traits, const Arch& arch, int warps, int tile_n,
                         KernelConfig c) {
  c.mainloop = kForwardSm90.mainloop;
  c.tile_m = 16 * warps, c.tile_n = tile_n, c.warps = warps;
  if (c.schedule == kOneTileEach) c.schedule = kDynamicPersistent;
  c.skip_masked = has_edges(traits);
  c.stages = forward_sm90::most_stages(traits, c, arch);
  return c;
}

/// Of few queries: beside the time of reading keys and values nothing else counts.
std::vector<KernelConfig> decoding_configs(const AttentionTraits& traits, int head_dim, const Arch& arch) {
  const KernelConfig whole{.ctas_per_sm = 2, .q_buffers = 1, .overlap = 1, .speculative_max = 1};
  if (head_dim > 128)
    return {sm90_config(traits, arch, 8, 64, kSplit), sm90_config(traits, arch, 4, 64, whole)};
  KernelConfig split_twice = kSplit;
  split_twice.ctas_per_sm = 2;
  return {sm90_config(traits, arch, 4, traits.dropout ? 64 : 128, split_twice),
          sm90_config(traits, arch, 4, head_dim > 64 ? 64 : 128, whole)};
}

/// Of few tiles with more rows.
std::vector<KernelConfig> chunk_configs(const AttentionTraits& traits, int head_dim, const Arch& arch) {
  return {sm90_config(traits, arch, kTileOfChunks / 16, head_dim > 128 || traits.dropout ? 64 : 128, kSplit)};
}

/// Three warpgroups of long sequences hide each other's softmax; of short ones, whose tiles are few blocks
/// long, the beginnings and ends of tiles have to be hidden (docs/measurements).
std::vector<Range> hopper_table(const AttentionTraits& traits, int head_dim, const Arch& arch) {
  const bool causal = has_edges(traits);
  const auto with = [&](int warps, int tile_n, const KernelConfig& c) {
    return sm90_config(traits, arch, warps, tile_n, c);
  };
  const KernelConfig safe = with(8, 64, {.q_buffers = 1, .overlap = 1});
  const KernelConfig guessing{.q_buffers = 2, .overlap = 1, .speculative_max = 1};
  const KernelConfig in_turns{.q_buffers = 2, .overlap = 1, .pingpong = 1, .speculative_max = 1};
  Range few{kWarpgroupRows, decoding_configs(traits, head_dim, arch)};
  few.best_first.push_back(safe);
  if (head_dim <= 64) {
    // Rows that are no whole swizzle of 128 bytes take more registers for addresses, and so do a bias and dropout; what
    // gathers rows leaves fewer.
    const bool is_lean =
        head_dim == 64 && !traits.alibi && !traits.dropout && !gathers_keys(traits.page_size);
    const KernelConfig three = with(12, is_lean ? 128 : 112, in_turns);
    const auto two = [&](int tile_n) {
      return with(8, tile_n, {.ctas_per_sm = 2, .q_buffers = 2, .speculative_max = 1});
    };
    const Range any{kMostQueries, {three, safe}};
    if (causal) return {few, {1536, {two(64), three, safe}}, any};
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
    const Range any{kMostQueries, {three, wide, safe}};
    if (causal) return {few, {3072, {with(12, 64, guessing), three, wide, safe}}, any};
    return {few, {1536, {wide, three, safe}}, any};
  }
  const KernelConfig guessing_once{.q_buffers = 1, .overlap = 1, .speculative_max = 1};
  if (head_dim <= 192) return {few, {kMostQueries, {with(8, 96, guessing_once), safe}}};
  const auto exact = [&](int tile_n) { return with(8, tile_n, {.q_buffers = 1, .overlap = 1}); };
  if (head_dim < 256) return {few, {kMostQueries, {safe, exact(48)}}};
  return {few, {6144, {safe, exact(48)}}, {kMostQueries, {exact(80), safe, exact(48)}}};
}

/// Main loop 80's. The last of a line is small enough for every compiler.
std::vector<Range> every_gpu_table(const AttentionTraits& traits, int head_dim, const Arch& arch) {
  const bool causal = has_edges(traits);
  // Copying element by element takes registers too, and is slow whatever the tile.
  const KernelConfig small = config(64, 32, 4, 1);
  if (traits.row_alignment == RowAlignment::element) return {{kMostQueries, {small}}};
  const Range few{causal && head_dim <= 64 ? 512 : 64, {config(64, 64, 4, 2), config(64, 64, 4, 1), small}};
  const auto then = [&](const KernelConfig& first, const KernelConfig& second) -> std::vector<Range> {
    return {few, {kMostQueries, {first, second, config(64, 64, 4, 1), small}}};
  };
  if (head_dim <= 64) return then(config(128, 64, 4, 2, 1), config(128, 64, 4, 1));
  if (head_dim <= 96) return then(config(128, 48, 4, 3), config(128, 48, 4, 2));
  // The widest tiles that ptxas fits into 255 registers: on Blackwell, for two head dims, and for 112 columns
  // it needs more.
  const bool tight = arch.compute_capability >= 100 || traits.head_dim != traits.head_dim_v;
  if (head_dim <= 128 && tight) return {{kMostQueries, few.best_first}};
  if (head_dim <= 112) return then(config(128, 32, 4, 3), config(128, 32, 4, 2));
  const int tile_n = causal ? 32 : 48;  // with a mask 48 keys spill
  if (head_dim <= 128) return then(config(128, tile_n, 4, 3), config(128, tile_n, 4, 2));
  return {few, {kMostQueries, {config(64, 80, 4, 1), config(64, 64, 4, 1), config(64, 48, 4, 1), small}}};
}

/// The tables of an arch, the better one first.
struct Tables {
  std::vector<Range> hopper;  ///< empty where main loop 90 does not run
  std::vector<Range> every_gpu;
};

Tables tables_of(const AttentionTraits& traits, const Arch& arch) {
  const int head_dim = std::max(traits.head_dim, traits.head_dim_v);
  Tables tables;
  if (kForwardSm90.runs_on(arch) && !arch.interpreted) tables.hopper = hopper_table(traits, head_dim, arch);
  tables.every_gpu = every_gpu_table(traits, head_dim, arch);
  for (Range& range : tables.every_gpu) {
    std::stable_partition(range.best_first.begin(), range.best_first.end(),
                          [&](const KernelConfig& c) { return two_fit(traits, c, arch); });
  }
  return tables;
}

/// Best first for `queries`; none of an empty table.
std::vector<KernelConfig> line_for(const std::vector<Range>& table, std::int64_t queries) {
  const auto line = std::ranges::find_if(table, [&](const Range& r) { return queries <= r.most_queries; });
  return line == table.end() ? std::vector<KernelConfig>() : line->best_first;
}

/// What decided the line: `mean`, of packed sequences their mean length.
std::string length_text(const AttentionProblem& p, std::int64_t mean) {
  const std::string queries = fmt::format("{}seqlen_q {}", p.total_q > 0 ? "mean " : "", mean);
  if (table_length(p, mean) == mean) return queries;
  return fmt::format("{} with {} keys in the window", queries, *window_width(p));
}

/// What configurations go by.
PlannedProblem judged_problem(const PlannedProblem& problem) {
  PlannedProblem p = problem.normalized();
  if (p.batch_invariant) p.batch = p.seqlen_q = p.seqlen_k = 1, p.total_q = p.total_k = 0;
  return p;
}

}  // namespace

std::vector<HeuristicChoice> heuristic_choices(const PlannedProblem& problem, const Arch& arch) {
  const PlannedProblem p = judged_problem(problem);
  const AttentionTraits traits = traits_of(p);
  const Tables tables = tables_of(traits, arch);
  const std::int64_t queries = with_mean_lengths(p).seqlen_q;
  const std::int64_t rows = queries * packed_heads(p, kWarpgroupRows);
  std::vector<KernelConfig> configs = line_for(tables.hopper, table_length(p, rows));
  if (!shares_keys(p, rows)) std::erase_if(configs, splits_keys);
  if (!tables.hopper.empty() && table_length(p, rows) > kWarpgroupRows && !p.batch_invariant &&
      has_few_tiles(p)) {
    const auto chunks = chunk_configs(traits, std::max(p.head_dim, p.head_dim_v), arch);
    configs.insert(configs.begin(), chunks.begin(), chunks.end());
  }
  if (!p.batch_invariant) {
    const bool is_first = reads_little(p) && !(kForwardSm90.runs_on(arch) && p.page_size > 0);
    const std::vector<KernelConfig> split = split_configs(p, traits, arch);
    configs.insert(is_first ? configs.begin() : configs.end(), split.begin(), split.end());
  }
  for (KernelConfig& c : configs) c = with_packed_heads(c, p);
  std::ranges::copy(line_for(tables.every_gpu, table_length(p, queries)), std::back_inserter(configs));
  std::erase_if(configs, [&](const KernelConfig& c) { return why_rejected(p, c, arch).has_value(); });
  if (configs.empty()) {
    throw Error(ErrorCode::internal,
                fmt::format("no heuristic configuration fits {} on {}", to_string(traits), arch.name));
  }
  std::vector<HeuristicChoice> choices;
  for (const KernelConfig& c : configs) {
    choices.push_back(
        {c, fmt::format("entry {} of the table for head dims around {}, {}, on {}", choices.size() + 1,
                        std::max(p.head_dim, p.head_dim_v), length_text(p, queries), arch.name)});
  }
  return choices;
}

std::vector<HeuristicChoice> heuristic_choices(const PlannedProblem& problem, const Arch& arch,
                                               KernelPass pass) {
  return pass == KernelPass::forward ? heuristic_choices(problem, arch)
                                     : backward_choices(problem, pass, arch);
}

std::vector<PlannedProblem> heuristic_cases(const PlannedProblem& problem, const Arch& arch) {
  PlannedProblem p = problem.normalized();
  p.batch = p.heads_kv = 1;
  p.total_q = p.total_k = 0;  // lines follow mean lengths, which are among the cases
  // Narrower ones are as short sequences, which are among the cases.
  if (p.window_left) p.window_left = kMostQueries;
  if (p.window_right) p.window_right = kMostQueries;
  std::vector<PlannedProblem> cases;
  const auto add = [&](std::int64_t queries, std::int64_t group, std::int64_t keys, std::int64_t batch = 1) {
    p.batch = batch;
    p.heads_q = group;
    p.seqlen_q = queries;
    p.seqlen_k = keys;
    cases.push_back(p);
  };
  const Tables tables = tables_of(traits_of(p), arch);
  std::int64_t largest_tile = kMostSplitRows + 1;
  for (const Range& range : tables.hopper) {
    for (const KernelConfig& c : range.best_first)
      largest_tile = std::max<std::int64_t>(largest_tile, c.tile_m);
  }
  // Below a tile, heads are packed by the number of queries.
  for (std::int64_t queries = 1; queries < largest_tile; ++queries) {
    for (int group = 1; group <= kMostPacked; group *= 2) {
      for (const std::int64_t keys : {queries, some_keys(p), kMostQueries}) add(queries, group, keys);
      add(queries, group, kMostQueries, 256);  // more blocks of keys than can be shared out
    }
  }
  // Chunks below a tile are among the cases, but under a top-left mask they see few keys.
  add(kLeastKeysOfChunks, 1, kMostQueries);
  for (const auto& table : {tables.hopper, tables.every_gpu}) {
    for (const Range& range : table) add(range.most_queries, 1, range.most_queries);
  }
  return cases;
}

std::vector<PlannedProblem> heuristic_cases(const PlannedProblem& problem, const Arch& arch,
                                            KernelPass pass) {
  if (pass == KernelPass::forward) return heuristic_cases(problem, arch);
  return {problem};
}

std::int64_t table_length(const AttentionProblem& problem, std::int64_t rows) {
  const auto width = window_width(problem);
  return width ? std::min(rows, 2 * *width) : rows;
}

int packed_heads(const AttentionProblem& problem, int tile_m) {
  const std::int64_t group = problem.heads_kv > 0 ? problem.heads_q / problem.heads_kv : 1;
  int packed = 1;
  if (problem.dropout) return packed;
  while (packed < kMostPacked && group % (2 * packed) == 0 && problem.seqlen_q * packed < tile_m) packed *= 2;
  return packed;
}

KernelConfig with_packed_heads(KernelConfig config, const AttentionProblem& problem) {
  const KernelKind* kind = find_kind(config);
  if (kind != nullptr && kind->tunable("packed_heads") != nullptr)
    config.packed_heads = packed_heads(problem, config.tile_m);
  return config;
}

HeuristicChoice heuristic(const PlannedProblem& problem, const Arch& arch) {
  return heuristic_choices(problem, arch).front();
}

}  // namespace fa2
