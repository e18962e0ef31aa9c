// The forward kernel for head dims beyond 256: warps share rows and own columns of the output, on mma.sync.
#include <generator/head_packing.h>
#include <generator/kernel_kind.h>
#include <generator/kernels/forward_rules.h>
#include <generator/kernels/forward_time.h>
#include <generator/kernels/launch_steps.h>
#include <generator/kernels/mma_rules.h>
#include <generator/kernels/wgmma_rules.h>
#include <generator/kernels/wide_rules.h>
#include <generator/key_value_format.h>

#include <algorithm>
#include <templates/attention/common/tile_schedule.cuh>

namespace fa2 {
namespace {

constexpr int kMostStages = 4, kMostRows = 64;

/// Returns the m16 tiles of a warp.
int m_tiles(const KernelConfig& c) {
  return c.tile_m * c.column_warps / (16 * c.warps);
}

/// Returns the columns of O that a warp owns: whole blocks of ldmatrix.
int own_cols(const AttentionTraits& traits, const KernelConfig& c) {
  const int block = has_bytes(traits) ? 32 : 16;
  return (padded_dim(traits.head_dim_v) + block * c.column_warps - 1) / (block * c.column_warps) * block;
}

/// The query tile and the ring, or the output in their place, then the scores, and one word.
int shared_bytes(const AttentionTraits& traits, const KernelConfig& c) {
  const int queries = c.tile_m * row_bytes(traits, Side::q);
  const int ring = c.stages * c.tile_n * key_value_row_bytes(traits);
  const int output = c.tile_m * c.column_warps * own_cols(traits, c) * element_bytes(traits);
  const int scores = c.tile_m * c.tile_n * 4;
  return std::max(queries + ring, output) + scores + 16;
}

int estimated_registers(const AttentionTraits& traits, const KernelConfig& c) {
  const int m = m_tiles(c), own_keys = std::max(16, c.tile_n / c.column_warps);
  const int accumulators = m * (own_cols(traits, c) + c.tile_n + own_keys) / 8 * 4;
  const int queries = m * 4, softmax = m * 4;
  constexpr int kAddressesTilesAndOperands = 40;
  return accumulators + queries + softmax + kAddressesTilesAndOperands;
}

void check(const KernelSpec& spec, BrokenRules& rules) {
  const KernelConfig& c = spec.config;
  if (c.warps < 1 || c.column_warps < 1) return;
  rules.expect(c.warps % c.column_warps == 0, "warps = {} is no multiple of column_warps = {}", c.warps,
               c.column_warps);
  const std::int64_t rows = std::int64_t{16} * std::max(1, c.warps / c.column_warps);
  rules.expect(c.tile_m % rows == 0,
               "tile_m = {} is no multiple of 16 * warps / column_warps = {}: warps own whole mma tiles",
               c.tile_m, rows);
  const std::int64_t keys = std::int64_t{16} * c.column_warps;
  rules.expect(c.tile_n <= keys || c.tile_n % keys == 0,
               "tile_n = {} is no multiple of 16 * column_warps = {}: each warp has as many keys of its own",
               c.tile_n, keys);
  rules.expect(
      spec.traits.kv_type != KvType::ds_mla || (c.column_warps & (c.column_warps - 1)) == 0,
      "column_warps = {}, must be a power of two with kv_type ds_mla: no factor is of columns of two warps",
      c.column_warps);
  rules.expect(!spec.traits.values_in_keys || c.stages > 1,
               "stages = {}, must be at least 2 with values_in_keys: keys are in use until the next ones are",
               c.stages);
}

void check_registers(const KernelSpec& spec, BrokenRules& rules) {
  mma_rules::check_registers(spec, estimated_registers(spec.traits, spec.config), rules);
}

/// Returns a config with as many slots of the ring as fit; one if two do not.
KernelConfig with_stages(const AttentionTraits& traits, const Arch& arch, KernelConfig c) {
  c.stages = forward_rules::most_stages(traits, c, arch, kMostStages, shared_bytes);
  const bool fits = SharedMemoryNeed{arch, shared_bytes(traits, c), c.ctas_per_sm}.fits();
  if (!fits && !traits.values_in_keys) c.stages = 1;
  return c;
}

KernelConfig tiles(int tile_m, int tile_n, int warps, int column_warps, int schedule = kSplitKeys) {
  return {.kernel = KernelId::forward_wide,
          .tile_m = tile_m,
          .tile_n = tile_n,
          .warps = warps,
          .schedule = schedule,
          .column_warps = column_warps};
}

/// Returns every combination of the tunables' values for wide heads, each with as many slots of the ring as fit.
std::vector<KernelConfig> configs(const AttentionTraits& traits, const Arch& arch) {
  std::vector<KernelConfig> all;
  if (!wide_rules::is_wide(traits)) return all;
  for (const int tile_m : {16, 32, 64, 128}) {
    for (const int column_warps : {2, 4}) {
      for (const int row_warps : {1, 2, 4}) {
        for (const int tile_n : {16, 32, 64, 128}) {
          for (const int schedule : {int{kOneTileEach}, int{kSplitKeys}}) {
            for (const int blocks : {1, 2}) {
              KernelConfig c = tiles(tile_m, tile_n, row_warps * column_warps, column_warps, schedule);
              c.ctas_per_sm = blocks;
              all.push_back(with_stages(traits, arch, c));
            }
          }
        }
      }
    }
  }
  return all;
}

/// Returns configs with which an SM has two blocks, of at least two slots each. One block leaves most of an SM's cycles idle, which
/// shows where keys have 8 bits, or take more instructions to load.
std::vector<KernelConfig> two_blocks(const AttentionTraits& traits, const Arch& arch) {
  std::vector<KernelConfig> all;
  for (const int tile_n : {64, 32, 16}) {
    KernelConfig c = tiles(16, tile_n, 4, 4);
    c.ctas_per_sm = 2;
    c = with_stages(traits, arch, c);
    if (c.stages > 1) all.push_back(c);
  }
  return all;
}

/// Small blocks read keys fast; large ones read them less often.
std::vector<KernelConfig> heuristic(const PlannedProblem& p, const Arch& arch) {
  const AttentionTraits traits = traits_of(p);
  if (!wide_rules::is_wide(traits)) return {};
  const std::int64_t rows = packed_rows(head_packing(p, kMostRows), p.seqlen_q);
  std::vector<KernelConfig> configs;
  if (rows <= 16) configs = {tiles(16, 64, 4, 4)};
  if (rows > 16 && rows <= 32) configs = {tiles(32, 64, 8, 4), tiles(32, 32, 8, 4)};
  if (rows > 32)
    configs = {tiles(kMostRows, 32, 8, 2), tiles(32, 64, 8, 4), tiles(32, 32, 8, 4), tiles(32, 16, 4, 2)};
  // With sinks, widening 8-bit values takes registers that 256 columns per warp leave no room for.
  if (rows > 32 && has_bytes(traits) && traits.head_dim_v > 448) configs.erase(configs.begin());
  configs.push_back(tiles(16, 32, 4, 4));
  for (KernelConfig& c : configs) c = with_stages(traits, arch, c);
  // Many tiles need no split, and more KV blocks than a split can number allow none.
  std::vector<KernelConfig> whole = configs;
  for (KernelConfig& c : whole) c.schedule = kOneTileEach;
  const bool splits =
      p.batch_invariant || estimated_time(p, configs.front()) <= estimated_time(p, whole.front());
  configs.insert(splits ? configs.end() : configs.begin(), whole.begin(), whole.end());
  const bool crosses_pages = traits.page_size > 0 && traits.page_size % configs.front().tile_n != 0;
  if (rows <= 16 && (has_bytes(traits) || crosses_pages)) {
    const std::vector<KernelConfig> faster = two_blocks(traits, arch);
    configs.insert(configs.begin(), faster.begin(), faster.end());
  }
  return configs;
}

/// Next to forward_wide_sm90, whose tiles have 64 rows, only for few rows; fewer over keys of 8 bits, which every 16 rows widen here.
bool is_preferred(const PlannedProblem& p, const Arch& arch) {
  return wgmma_rules::runs_on(arch) && wide_rules::is_wide(traits_of(p)) &&
         packed_rows(head_packing(p, kMostRows), p.seqlen_q) <= (has_bytes(traits_of(p)) ? 16 : 32);
}

constexpr Tunable kTunables[] = {{"tile_m", 16, kMostTile, 16},
                                 {"tile_n", 16, kMostTile, 16},
                                 {"warps", 2, 16},
                                 {"stages", 1, kMostStages},
                                 {"ctas_per_sm", 1, kMostBlocks},
                                 {"schedule", kOneTileEach, kSplitKeys, kSplitKeys},
                                 {"column_warps", 2, 8}};

}  // namespace

constexpr KernelKind kernels::forward_wide = {
    .id = KernelId::forward_wide,
    .pass = KernelPass::forward,
    .main = "attention/forward/sm80/wide_kernel.cu",
    .entry = "fa2_attention_forward",
    .make_step = forward_split_step,
    .head_dims = {.most = 576},
    .head_dims_v = {.most = 512},
    .reads_e4m3 = true,
    .reads_latent_rows = true,
    .finds_values_in_keys = true,
    .tunables = kTunables,
    .default_config =
        {.kernel = KernelId::forward_wide, .tile_m = 16, .tile_n = 16, .stages = 2, .column_warps = 4},
    .supports = wide_rules::check,
    .check = check,
    .check_registers = check_registers,
    .shared_bytes = shared_bytes,
    .estimated_registers = estimated_registers,
    .configs = configs,
    .heuristic = heuristic,
    .heuristic_limits = [](const AttentionTraits& traits, const Arch&) -> HeuristicLimits {
      if (!wide_rules::is_wide(traits)) return {};
      return {.packed_rows = kMostRows + 1};
    },
    .is_preferred = is_preferred,
    .constants = constants_of_e4m3,
    .reads = is_forward_trait,
};

}  // namespace fa2
