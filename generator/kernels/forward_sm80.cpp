// The forward kernel on mma.sync, fed by cp.async.
#include <generator/kernel_kind.h>
#include <generator/kernels/heuristic_table.h>
#include <generator/kernels/key_map_rules.h>
#include <generator/kernels/launch_steps.h>
#include <generator/kernels/mma_rules.h>
#include <generator/sequences.h>
#include <generator/visible_keys.h>

#include <algorithm>

namespace fa2 {
namespace {

int shared_bytes(const AttentionTraits& traits, const KernelConfig& config) {
  const int query = config.tile_m * row_bytes(traits, Side::q);
  const int output = config.tile_m * row_bytes(traits, Side::o);
  const int ring = config.stages * config.tile_n * key_value_row_bytes(traits);
  return std::max({query, output, config.q_in_registers ? ring : query + ring});
}

int estimated_registers(const AttentionTraits& traits, const KernelConfig& config) {
  const int m = mma_rules::m_tiles(config);
  const int accumulators = m * (padded_dim(traits.head_dim_v) / 8 + config.tile_n / 8) * 4;
  const int queries = m * 4 * (config.q_in_registers ? padded_dim(traits.head_dim) / 16 : 1);
  const int softmax = m * 4;
  constexpr int kAddressesAndOperands = 24;
  return accumulators + queries + softmax + kAddressesAndOperands;
}

void check(const KernelSpec& spec, BrokenRules& rules) {
  mma_rules::check_tiles(spec.config, rules);
  key_map_rules::check(spec.traits, spec.config, rules);
}

void check_registers(const KernelSpec& spec, BrokenRules& rules) {
  mma_rules::check_registers(spec, estimated_registers(spec.traits, spec.config), rules);
}

/// Returns every combination of the tunables' values.
std::vector<KernelConfig> configs(const AttentionTraits&, const Arch&) {
  std::vector<KernelConfig> all;
  for (const int tile_m : {64, 128}) {
    for (const int warps : {4, 8}) {
      for (const int tile_n : {32, 48, 64, 80, 96, 128}) {
        for (const int stages : {1, 2, 3}) {
          for (const int q_in_registers : {0, 1}) {
            for (const int ctas_per_sm : {1, 2, 3}) {
              all.push_back({.kernel = KernelId::forward_sm80,
                             .tile_m = tile_m,
                             .tile_n = tile_n,
                             .warps = warps,
                             .stages = stages,
                             .q_in_registers = q_in_registers,
                             .ctas_per_sm = ctas_per_sm});
            }
          }
        }
      }
    }
  }
  return all;
}

KernelConfig tiles(int tile_m, int tile_n, int warps, int stages, int q_in_registers = 0) {
  KernelConfig c;
  c.tile_m = tile_m;
  c.tile_n = tile_n;
  c.warps = warps;
  c.stages = stages;
  c.q_in_registers = q_in_registers;
  return c;
}

/// Returns whether two blocks fit an SM: they hide each other's barriers and softmax.
bool two_fit(const AttentionTraits& traits, const KernelConfig& c, const Arch& arch) {
  return SharedMemoryNeed{arch, shared_bytes(traits, c), 2}.fits();
}

/// Returns the table of forward_sm80. The last config of each line is small enough for every compiler.
HeuristicTable table_of(const AttentionTraits& traits, const Arch& arch) {
  const int head_dim = std::max(traits.head_dim, traits.head_dim_v);
  const bool causal = has_edges(traits);
  // Copying element by element also needs registers, and is slow with every tile.
  const KernelConfig small = tiles(64, 32, 4, 1);
  if (traits.row_alignment == RowAlignment::element) return {{kMostQueries, {small}}};
  const HeuristicRange few{causal && head_dim <= 64 ? 512 : 64,
                           {tiles(64, 64, 4, 2), tiles(64, 64, 4, 1), small}};
  const auto then = [&](const KernelConfig& first, const KernelConfig& second) -> HeuristicTable {
    return {few, {kMostQueries, {first, second, tiles(64, 64, 4, 1), small}}};
  };
  // Texts of scores take registers, too.
  if (head_dim <= 128 && traits.score_text != 0) return {{kMostQueries, few.best_first}};
  if (head_dim <= 64) return then(tiles(128, 64, 4, 2, 1), tiles(128, 64, 4, 1));
  if (head_dim <= 96) return then(tiles(128, 48, 4, 3), tiles(128, 48, 4, 2));
  // The widest tiles that ptxas fits into 255 registers. It needs more on Blackwell, for two head dims, and for 112 columns.
  const bool tight = arch.compute_capability >= 100 || traits.head_dim != traits.head_dim_v;
  if (head_dim <= 128 && tight) return {{kMostQueries, few.best_first}};
  if (head_dim <= 112) return then(tiles(128, 32, 4, 3), tiles(128, 32, 4, 2));
  // With a mask, slopes or 8-bit keys 48 keys spill.
  const int tile_n = causal || traits.alibi || traits.kv_type != KvType::same ? 32 : 48;
  if (head_dim <= 128) return then(tiles(128, tile_n, 4, 3), tiles(128, tile_n, 4, 2));
  return {few, {kMostQueries, {tiles(64, 80, 4, 1), tiles(64, 64, 4, 1), tiles(64, 48, 4, 1), small}}};
}

std::vector<KernelConfig> heuristic(const PlannedProblem& p, const Arch& arch) {
  const AttentionTraits traits = traits_of(p);
  std::vector<KernelConfig> configs =
      line_for(table_of(traits, arch), table_length(p, with_mean_lengths(p).seqlen_q));
  std::stable_partition(configs.begin(), configs.end(),
                        [&](const KernelConfig& c) { return two_fit(traits, c, arch); });
  key_map_rules::use_maps_of_forward(p, configs);
  return configs;
}

constexpr Tunable kTunables[] = {
    {"tile_m", 16, kMostTile}, {"tile_n", 16, kMostTile, 16},   {"warps", 1, 16},          {"stages", 1, 4},
    {"q_in_registers", 0, 1},  {"ctas_per_sm", 1, kMostBlocks}, {"key_map", 0, 1, 1, true}};

}  // namespace

constexpr KernelKind kernels::forward_sm80 = {
    .id = KernelId::forward_sm80,
    .pass = KernelPass::forward,
    .main = "attention/forward/sm80/kernel.cu",
    .entry = "fa2_attention_forward",
    .make_step = forward_sm80_step,
    .reads_e4m3 = true,
    .tunables = kTunables,
    .default_config = {},
    .check = check,
    .check_registers = check_registers,
    .shared_bytes = shared_bytes,
    .estimated_registers = estimated_registers,
    .configs = configs,
    .heuristic = heuristic,
    .heuristic_limits = [](const AttentionTraits& traits, const Arch& arch) -> HeuristicLimits {
      return {.queries = key_map_rules::with_limit(traits, limits_of(table_of(traits, arch)))};
    },
    .constants = constants_of_e4m3,
    .reads = is_forward_trait,
};

}  // namespace fa2
