// The forward kernel for few queries: split KV on mma.sync.
#include <generator/head_packing.h>
#include <generator/kernel_kind.h>
#include <generator/kernels/forward_rules.h>
#include <generator/kernels/launch_steps.h>
#include <generator/kernels/mma_rules.h>
#include <generator/kernels/wgmma_rules.h>
#include <generator/visible_keys.h>

#include <algorithm>
#include <templates/attention/common/tile_schedule.cuh>

namespace fa2 {
namespace {

constexpr int kMostStages = 4;

/// The query tile, per warp a region for its ring and later its partial output, and one word.
int shared_bytes(const AttentionTraits& traits, const KernelConfig& config) {
  const int ring = config.stages * config.tile_n * key_value_row_bytes(traits);
  const int part = config.tile_m * (padded_dim(traits.head_dim_v) + 4) * 4;
  return config.tile_m * row_bytes(traits, Side::q) + config.warps * std::max(ring, part) + 16;
}

/// Returns the m16 tiles of a warp: each warp has all rows of the tile.
int m_tiles(const KernelConfig& config) {
  return config.tile_m / 16;
}

int estimated_registers(const AttentionTraits& traits, const KernelConfig& config) {
  const int m = m_tiles(config);
  const int accumulators = m * (padded_dim(traits.head_dim_v) / 8 + config.tile_n / 8) * 4;
  const int queries = m * 4 * (config.q_in_registers ? padded_dim(traits.head_dim) / 16 : 1);
  const int softmax = m * 4;
  constexpr int kAddressesTilesAndOperands = 40;
  return accumulators + queries + softmax + kAddressesTilesAndOperands;
}

void check_registers(const KernelSpec& spec, BrokenRules& rules) {
  mma_rules::check_registers(spec, estimated_registers(spec.traits, spec.config), rules);
}

/// Returns every combination of the tunables' values, each with as many slots of the rings as fit.
std::vector<KernelConfig> configs(const AttentionTraits& traits, const Arch& arch) {
  std::vector<KernelConfig> all;
  for (const int tile_m : {16, 32}) {
    for (const int warps : {2, 4, 8}) {
      for (const int tile_n : {16, 32, 64}) {
        for (const int q_in_registers : {0, 1}) {
          for (const int ctas_per_sm : {1, 2, 3, 4}) {
            KernelConfig c{.kernel = KernelId::forward_split,
                           .tile_m = tile_m,
                           .tile_n = tile_n,
                           .warps = warps,
                           .q_in_registers = q_in_registers,
                           .ctas_per_sm = ctas_per_sm};
            c.stages = forward_rules::most_stages(traits, c, arch, kMostStages, shared_bytes);
            all.push_back(c);
          }
        }
      }
    }
  }
  return all;
}

constexpr int kMostSplitRows = 32;  // of the largest tile
// Limits over 8-bit keys and values, which forward_sm90 does not read. So many rows have two tiles, which both read the keys of a
// head. With so many heads forward_sm80 is as fast: it computes all rows of a head in one thread block.
constexpr std::int64_t kMostRowsOfBytes = 64, kManyHeads = 128;

// Bytes of keys and values (docs/kernel-notes.md). Up to kFew, as many warps as possible read them; above kLittle, startup costs
// are small against reading.
constexpr double kFew = 48 << 20, kLittle = 96 << 20;
constexpr std::int64_t kShort = 1024;    // keys
constexpr std::int64_t kManyTiles = 64;  // so many of equal length keep all SMs busy until the end

/// Returns the bytes of the keys and values that some query sees.
double bytes_read(const PlannedProblem& p) {
  const double rows =
      static_cast<double>(p.batch) * static_cast<double>(p.heads_kv) * static_cast<double>(visible_keys(p));
  return rows * static_cast<double>(key_value_format(p).bytes_per_key());
}

/// Returns a config with at most `warps` warps, so few that each has room for two stages in `blocks` blocks per SM.
KernelConfig split_config(const AttentionTraits& traits, const Arch& arch, int tile_m, int tile_n, int warps,
                          int blocks = 1) {
  const bool is_small = std::max(traits.head_dim, traits.head_dim_v) <= 128 && tile_m == 16;
  KernelConfig c{.kernel = KernelId::forward_split,
                 .tile_m = tile_m,
                 .tile_n = tile_n,
                 .warps = warps,
                 .stages = 2,
                 .q_in_registers = is_small && traits.row_alignment != RowAlignment::element,
                 .ctas_per_sm = blocks};
  const auto fits = [&] { return SharedMemoryNeed{arch, shared_bytes(traits, c), blocks}.fits(); };
  while (c.warps > 1 && !fits()) c.warps /= 2;
  c.stages = forward_rules::most_stages(traits, c, arch, kMostStages, shared_bytes);
  return c;
}

/// Adds a config, unless an SM has no room for four warps of it.
void add_if_four_warps(std::vector<KernelConfig>& configs, const KernelConfig& c) {
  if (c.warps == 4) configs.push_back(c);
}

/// Returns configs for more than a few 8-bit keys: more warps, in blocks of their own, than 16-bit ones need. Where lengths
/// differ, a third block hides what the others wait for; looking up each row's page takes the registers for it.
std::vector<KernelConfig> split_configs_of_bytes(const PlannedProblem& p, const Arch& arch) {
  const AttentionTraits traits = traits_of(p);
  std::vector<KernelConfig> configs;
  constexpr int kKeys = 32;
  for (int blocks = p.varlen && p.page_size % kKeys == 0 ? 3 : 2; blocks > 1; --blocks)
    add_if_four_warps(configs, split_config(traits, arch, 16, kKeys, 4, blocks));
  return configs;
}

/// Returns configs for more than 16 rows, best first. Over 8-bit keys an SM has two thread blocks, and tiles of 32 keys are faster,
/// but in wider heads pages take their registers.
std::vector<KernelConfig> configs_of_many_rows(const AttentionTraits& traits, const Arch& arch) {
  std::vector<KernelConfig> configs;
  if (traits.kv_type == KvType::e4m3) {
    if (traits.page_size == 0 || std::max(traits.head_dim, traits.head_dim_v) <= 96)
      add_if_four_warps(configs, split_config(traits, arch, 32, 32, 4, 2));
    add_if_four_warps(configs, split_config(traits, arch, 32, 16, 4, 2));
  }
  configs.push_back(split_config(traits, arch, 32, 16, 4));
  return configs;
}

/// Returns whether a head's query rows, together, are few enough for tiles that split keys.
bool has_few_rows(const PlannedProblem& p, const Arch& arch) {
  if (p.kv_type == KvType::e4m3) {
    const std::int64_t rows = p.seqlen_q * (p.heads_q / p.heads_kv);
    return rows <= kMostSplitRows || (rows <= kMostRowsOfBytes && p.batch * p.heads_kv < kManyHeads);
  }
  // Next to forward_sm90, whose tiles have 64 rows, only for few rows.
  return packed_rows(head_packing(p, kMostSplitRows), p.seqlen_q) <=
         (wgmma_rules::runs_on(arch) ? 16 : kMostSplitRows);
}

/// Returns keys of one head that are neither few nor many.
std::int64_t some_keys(const AttentionTraits& traits) {
  return static_cast<std::int64_t>((kFew + kLittle) / 2) / key_value_format(traits).bytes_per_key();
}

std::vector<KernelConfig> heuristic(const PlannedProblem& p, const Arch& arch) {
  if (p.batch_invariant || !has_few_rows(p, arch)) return {};
  const AttentionTraits traits = traits_of(p);
  const std::int64_t rows = packed_rows(head_packing(p, kMostSplitRows), p.seqlen_q);
  // Two tiles of 16 rows read keys twice, but registers hold no more of wide rows.
  const bool is_wide = std::max(traits.head_dim, traits.head_dim_v) > 128;
  const int tile_m = rows <= 16 || is_wide ? 16 : 32;
  KernelConfig safe = split_config(traits, arch, 16, 16, 4);
  safe.q_in_registers = 0;
  if (tile_m == 32) {
    std::vector<KernelConfig> configs = configs_of_many_rows(traits, arch);
    configs.push_back(safe);
    return configs;
  }
  const KernelConfig many = split_config(traits, arch, 16, 16, 8);
  const KernelConfig fewer = split_config(traits, arch, 16, 32, 4);
  if (bytes_read(p) <= kFew || fewer.warps < 4) return {many, safe};
  if (p.kv_type != KvType::e4m3) return {fewer, many, safe};
  if (!p.varlen && p.batch * p.heads_kv >= kManyTiles) return {many, fewer, safe};
  std::vector<KernelConfig> configs = split_configs_of_bytes(p, arch);
  configs.insert(configs.end(), {fewer, many, safe});
  return configs;
}

/// Next to forward_sm90, forward_split is faster if so few keys and values are read that other costs count. Pages are faster by
/// TMA, however few keys there are; so are short sequences with lengths on the device, which tell a warp too late where to begin.
bool is_preferred(const PlannedProblem& p, const Arch& arch) {
  const bool is_late = p.page_size > 0 || (p.varlen && visible_keys(p) < kShort);
  return bytes_read(p) <= kLittle && !(wgmma_rules::runs_on(arch) && is_late);
}

constexpr Tunable kTunables[] = {{"tile_m", 16, 64, 16},   {"tile_n", 16, 128, 16},
                                 {"warps", 1, 16},         {"stages", 2, kMostStages},
                                 {"q_in_registers", 0, 1}, {"ctas_per_sm", 1, kMostBlocks}};

}  // namespace

constexpr KernelKind kernels::forward_split = {
    .id = KernelId::forward_split,
    .pass = KernelPass::forward,
    .main = "attention/forward/sm80/split_kernel.cu",
    .entry = "fa2_attention_forward",
    .make_step = forward_split_step,
    .reads_e4m3 = true,
    .tunables = kTunables,
    .default_config =
        {.kernel = KernelId::forward_split, .tile_m = 16, .tile_n = 16, .warps = 4, .stages = 2},
    .check_registers = check_registers,
    .shared_bytes = shared_bytes,
    .estimated_registers = estimated_registers,
    .configs = configs,
    .heuristic = heuristic,
    .heuristic_limits = [](const AttentionTraits& traits, const Arch&) -> HeuristicLimits {
      const std::int64_t rows = traits.kv_type == KvType::e4m3 ? kMostRowsOfBytes : kMostSplitRows;
      return {.packed_rows = rows + 1, .keys = {kShort, some_keys(traits)}};
    },
    .is_preferred = is_preferred,
    .constants =
        [](const KernelSpec& spec) {
          std::vector<RenderedConstant> all = constants_of_e4m3(spec);
          all.push_back({"schedule", kSplitKeys});
          return all;
        },
    .reads = is_forward_trait,
};

}  // namespace fa2
