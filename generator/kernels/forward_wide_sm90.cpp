// The forward kernel for wide heads on Hopper: two warpgroups share rows, on wgmma and TMA.
#include <generator/kernel_kind.h>
#include <generator/kernels/forward_rules.h>
#include <generator/kernels/forward_time.h>
#include <generator/kernels/launch_steps.h>
#include <generator/kernels/wgmma_rules.h>
#include <generator/kernels/wide_rules.h>
#include <generator/key_value_format.h>
#include <generator/sequences.h>
#include <generator/wgmma_shapes.h>

#include <algorithm>
#include <templates/attention/common/tile_schedule.cuh>

namespace fa2 {
namespace {

using wgmma_rules::aligned;

constexpr int kMostStages = 8, kRows = 64, kSharers = 2;
constexpr std::int32_t kLeastValues = 128;  // columns of V, of which both warpgroups need some

/// Returns the columns of a swizzle, as tile/swizzled_tile.cuh has them.
int group_columns(int dim) {
  const int columns = padded_dim(dim);
  return columns % 64 == 0 ? 64 : columns % 32 == 0 ? 32 : 16;
}

/// Returns the columns of O that the first warpgroup owns.
int first_columns(const AttentionTraits& traits) {
  const int group = group_columns(traits.head_dim_v);
  return (padded_dim(traits.head_dim_v) / 2 + group - 1) / group * group;
}

/// Probabilities, the query tile, the ring, mbarriers and announced tiles, and factors of rows.
int shared_bytes(const AttentionTraits& traits, const KernelConfig& c) {
  const int query = std::max(row_bytes(traits, Side::q), row_bytes(traits, Side::o));
  // Keys of 8 bits are widened on their way.
  const int key =
      std::max(padded_dim(traits.head_dim), padded_dim(traits.head_dim_v)) * element_bytes(traits);
  const int mbarriers = 16 * (c.stages + 5) + (traits.varlen ? 40 : 0);
  const int part = c.schedule == kSplitKeys ? 48 : 0;
  return kRows * c.tile_n * element_bytes(traits) + aligned(kRows * query) +
         c.stages * aligned(c.tile_n * key) + mbarriers + part + kRows * 4;
}

/// Counts the output, scores and probabilities.
int estimated_registers(const AttentionTraits& traits, const KernelConfig& c) {
  constexpr int kAddressesAndSoftmax = 28;
  return first_columns(traits) / 2 + c.tile_n / 2 + c.tile_n / 4 + kAddressesAndSoftmax;
}

void supports(const AttentionTraits& traits, BrokenRules& rules) {
  wide_rules::check(traits, rules);
  wgmma_rules::check_rows(traits, rules);
  rules.expect(traits.head_dim_v >= kLeastValues, "head_dim_v = {}, must be at least {} for two warpgroups",
               traits.head_dim_v, kLeastValues);
  rules.expect(!has_bytes(traits) || (traits.head_dim % 64 == 0 && traits.head_dim_v % 64 == 0),
               "head_dim = {} and head_dim_v = {}, must be multiples of 64 for keys of 8 bits",
               traits.head_dim, traits.head_dim_v);
  rules.expect(!traits.values_in_keys || group_columns(traits.head_dim) == group_columns(traits.head_dim_v),
               "head_dim = {} and head_dim_v = {}, with values_in_keys their swizzles must be alike",
               traits.head_dim, traits.head_dim_v);
}

void check(const KernelSpec& spec, BrokenRules& rules) {
  rules.expect(spec.config.tile_m == kRows, "tile_m = {}, must be {}", spec.config.tile_m, kRows);
  rules.expect(spec.config.warps == 4 * kSharers, "warps = {}, must be {}", spec.config.warps, 4 * kSharers);
  rules.expect(spec.config.column_warps == kSharers, "column_warps = {}, must be {}",
               spec.config.column_warps, kSharers);
  rules.expect(
      !has_bytes(spec.traits) || spec.config.tile_n % 32 == 0,
      "tile_n = {}, must be a multiple of 32 for keys of 8 bits: each of four warps widens 8 rows at once",
      spec.config.tile_n);
}

/// Returns the registers of the producer, which searches for its tiles or its range of KV blocks, looks up pages and widens keys,
/// and of consumers.
wgmma_rules::RegisterShares register_shares(const KernelSpec& spec) {
  const bool splits = spec.config.schedule == kSplitKeys;
  const bool copies_rows = has_bytes(spec.traits) || (splits && spec.traits.page_size > 0);
  const int least = copies_rows ? 72 : splits || spec.traits.varlen ? 56 : 40;
  return wgmma_rules::register_shares(spec.config, spec.arch, least);
}

void check_registers(const KernelSpec& spec, BrokenRules& rules) {
  const int registers = estimated_registers(spec.traits, spec.config),
            available = register_shares(spec).consumer;
  rules.expect(registers <= available, "needs about {} registers a thread, a consumer warp has {}", registers,
               available);
}

KernelConfig with_stages(const AttentionTraits& traits, const Arch& arch, int tile_n, int schedule) {
  KernelConfig c{.kernel = KernelId::forward_wide_sm90,
                 .tile_m = kRows,
                 .tile_n = tile_n,
                 .warps = 4 * kSharers,
                 .schedule = schedule,
                 .column_warps = kSharers};
  c.stages = forward_rules::most_stages(traits, c, arch, kMostStages, shared_bytes);
  return c;
}

/// Returns a config for every number of keys, each with as many slots of the ring as fit.
std::vector<KernelConfig> configs(const AttentionTraits& traits, const Arch& arch) {
  std::vector<KernelConfig> all;
  if (!wide_rules::is_wide(traits)) return all;
  for (const int tile_n : {32, 48, 64, 80, 96})
    for (const int schedule : {kDynamicPersistent, kSplitKeys})
      all.push_back(with_stages(traits, arch, tile_n, schedule));
  return all;
}

std::vector<KernelConfig> heuristic(const PlannedProblem& p, const Arch& arch) {
  const AttentionTraits traits = traits_of(p);
  if (!wide_rules::is_wide(traits)) return {};
  const KernelConfig tiles = with_stages(traits, arch, 64, kDynamicPersistent),
                     parts = with_stages(traits, arch, 64, kSplitKeys);
  const bool splits = p.batch_invariant || estimated_time(p, parts) < estimated_time(p, tiles);
  return {splits ? parts : tiles, splits ? tiles : parts, with_stages(traits, arch, 32, kSplitKeys)};
}

std::vector<RenderedConstant> constants(const KernelSpec& spec) {
  const wgmma_rules::RegisterShares shares = register_shares(spec);
  return {{"producer_registers", shares.producer}, {"consumer_registers", shares.consumer}, {"q_buffers", 1}};
}

/// S = Q K^T with both in shared memory, and O += P V with P in registers, or in shared memory.
std::vector<SourceFile> headers(const KernelSpec& spec) {
  using enum WgmmaOperand;
  const AttentionTraits& t = spec.traits;
  const int first = first_columns(t);
  return {wgmma_header({{t.dtype, spec.config.tile_n, k_major, k_major},
                        {t.dtype, first, registers, mn_major},
                        {t.dtype, padded_dim(t.head_dim_v) - first, k_major, mn_major}})};
}

constexpr Tunable kTunables[] = {{"tile_m", kRows, kRows},
                                 {"tile_n", 16, wgmma_rules::kMostColumns, 16},
                                 {"warps", 4 * kSharers, 4 * kSharers},
                                 {"stages", 2, kMostStages},
                                 {"ctas_per_sm", 1, 1},
                                 {"schedule", kDynamicPersistent, kSplitKeys},
                                 {"column_warps", kSharers, kSharers}};

}  // namespace

constexpr KernelKind kernels::forward_wide_sm90 = {
    .id = KernelId::forward_wide_sm90,
    .pass = KernelPass::forward,
    .main = "attention/forward/sm90/wide_kernel.cu",
    .entry = "fa2_attention_forward",
    .make_step = forward_sm90_step,
    .section_bytes = 8 << 20,
    .head_dims = {.most = 576},
    .head_dims_v = {.most = 512},
    .reads_e4m3 = true,
    .reads_latent_rows = true,
    .finds_values_in_keys = true,
    .tunables = kTunables,
    .default_config = {.kernel = KernelId::forward_wide_sm90,
                       .tile_m = kRows,
                       .tile_n = 32,
                       .warps = 4 * kSharers,
                       .stages = 2,
                       .schedule = kDynamicPersistent,
                       .column_warps = kSharers},
    .runs_on = wgmma_rules::runs_on,
    .supports = supports,
    .check = check,
    .check_registers = check_registers,
    .threads = wgmma_rules::threads,
    .shared_bytes = shared_bytes,
    .estimated_registers = estimated_registers,
    .configs = configs,
    .heuristic = heuristic,
    .constants = constants,
    .headers = headers,
    .reads = is_forward_trait,
};

}  // namespace fa2
