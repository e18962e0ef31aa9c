// What the backward on wgmma and TMA can be asked for.
#include <generator/kernels/backward_sm80.h>
#include <generator/kernels/backward_sm90.h>
#include <generator/kernels/mma_rules.h>
#include <generator/kernels/rules.h>
#include <generator/kernels/wgmma_rules.h>

#include <algorithm>

namespace fa2 {
namespace {

using wgmma_rules::aligned;

constexpr int kMostDim = 128;       // of keys whose dK and dV one warpgroup owns
constexpr int kMostSplitDim = 256;  // of keys whose dK and dV two own
constexpr int kMostStages = 4;

/// Whether dQ is summed as its transpose.
bool is_transposed(const AttentionTraits& traits) {
  return padded_dim(traits.head_dim) > 64;
}

/// Whether one warpgroup owns dV, and another dK.
bool splits_gradients(const KernelConfig& config) {
  return config.tile_m == 8 * config.warps;
}

bool orders_sums(const KernelConfig& config) {
  return pass_of(config) == KernelPass::ordered_dq_dk_dv;
}

int shared_bytes(const AttentionTraits& traits, const KernelConfig& c) {
  const int d = padded_dim(traits.head_dim), dv = padded_dim(traits.head_dim_v);
  const int score_places = c.pingpong + 2;
  const int own = c.tile_m * (d + dv) * 2;
  const int slot = aligned(c.tile_n * d * 2) + aligned(c.tile_n * dv * 2) + 8 * c.tile_n;
  return own + c.stages * slot + (score_places + (splits_gradients(c) ? 2 : 0)) * c.tile_n * c.tile_m * 2 +
         8 * (4 * c.stages + 2 * score_places + 2 + (splits_gradients(c) ? 4 : 0));
}

/// Scores, their gradients, and dK and dV; dQ takes the registers of scores.
int estimated_registers(const AttentionTraits& traits, const KernelConfig& c) {
  constexpr int kAddressesAndOperands = 28;
  if (splits_gradients(c)) {
    const int sums = padded_dim(traits.head_dim) > 128 ? c.tile_n : c.tile_n / 2;
    return std::max(padded_dim(traits.head_dim), padded_dim(traits.head_dim_v)) / 2 + c.tile_n / 4 + sums +
           kAddressesAndOperands;
  }
  return c.tile_n + (padded_dim(traits.head_dim) + padded_dim(traits.head_dim_v)) / 2 + kAddressesAndOperands;
}

void check_of_both(const KernelSpec& spec, BrokenRules& rules) {
  rules.expect(wgmma_rules::runs_on(spec.arch), "main loop 90 needs an sm_90a GPU, not {}", spec.arch.name);
  const int most = std::max(spec.traits.head_dim, spec.traits.head_dim_v);
  rules.expect(most <= kMostSplitDim, "main loop 90 has no backward of head dims above {}", kMostSplitDim);
}

/// `queries` of a tile whose dQ is summed by `warps`.
void check_sums(const KernelSpec& spec, int queries, BrokenRules& rules) {
  const int warps = spec.config.warps;
  if (is_transposed(spec.traits)) {
    rules.expect(warps == 8, "warps = {}, must be 8 with head dims above 64", warps);
  } else {
    rules.expect(queries == 16 * warps, "{} queries, must be 16 * warps = {} with head dims up to 64",
                 queries, 16 * warps);
  }
}

/// Its numbers take registers, of which a warpgroup with both dK and dV has few.
void check_dropout(const KernelSpec& spec, BrokenRules& rules) {
  const AttentionTraits& t = spec.traits;
  if (!t.dropout || splits_gradients(spec.config)) return;
  rules.expect(padded_dim(t.head_dim) == kMostDim && padded_dim(t.head_dim_v) == kMostDim,
               "the numbers of dropout find registers with head dims from 120 on, both");
  rules.expect(!t.window_left && !t.window_right && !t.softcap && !t.alibi,
               "windows, softcap and ALiBi leave no registers for the numbers of dropout");
}

void check(const KernelSpec& spec, BrokenRules& rules) {
  const KernelConfig& c = spec.config;
  check_of_both(spec, rules);
  check_sums(spec, c.tile_n, rules);
  rules.expect(spec.traits.row_alignment == RowAlignment::bytes16,
               "main loop 90 loads by TMA: rows must be 16-byte aligned and ascend");
  const std::int64_t rows = std::int64_t{16} * c.warps;
  rules.expect(c.warps % 4 == 0, "warps = {} are no whole warpgroups of 4", c.warps);
  rules.expect(c.tile_m == rows || (splits_gradients(c) && c.warps == 8),
               "tile_m = {}, must be 16 * warps = {}, or 64 with warps = 8", c.tile_m, rows);
  rules.expect(c.pingpong == 0 || (c.warps == 8 && !splits_gradients(c)),
               "pingpong needs two warpgroups that do the same: warps = 8, tile_m = 128");
  rules.expect(c.pingpong == 0 || c.stages > 1,
               "pingpong = 1 needs stages = 2: one waits for its turn in a slot that the other waits for");
  const bool is_full = !is_transposed(spec.traits) && !splits_gradients(c);
  rules.expect(!spec.traits.softcap || !is_full,
               "128 queries a step leave no registers for the softcap's derivative");
  rules.expect(!spec.traits.varlen || !is_full, "128 queries a step leave no registers for packed sequences");
  check_dropout(spec, rules);
  const int most = std::max(spec.traits.head_dim, spec.traits.head_dim_v);
  rules.expect(splits_gradients(c) || most <= kMostDim, "head dims above {} need tile_m = 64 with warps = 8",
               kMostDim);
  // What a product of the transpose reads behind the keys' columns are values.
  const int behind = 64 * 2 * (backward_sm90::sum_cols(spec.traits) - padded_dim(spec.traits.head_dim));
  rules.expect(!is_transposed(spec.traits) || behind <= c.tile_m * padded_dim(spec.traits.head_dim_v) * 2,
               "head_dim_v = {} is too small beside head_dim = {}", spec.traits.head_dim_v,
               spec.traits.head_dim);
}

void check_registers(const KernelSpec& spec, BrokenRules& rules) {
  const wgmma_rules::RegisterShares shares = wgmma_rules::register_shares(spec.config, spec.arch);
  const int registers = estimated_registers(spec.traits, spec.config);
  rules.expect(registers <= shares.consumer, "needs about {} registers a thread, a consumer warp has {}",
               registers, shares.consumer);
}

std::vector<KernelConfig> configs(const AttentionTraits&, const Arch&) {
  std::vector<KernelConfig> all;
  for (const int tile_m : {64, 128}) {
    for (const int tile_n : {48, 64, 80, 96, 128}) {
      for (const int stages : {1, 2, 3}) {
        for (const int pingpong : {0, 1}) {
          if (tile_m == 64 && pingpong == 1) continue;
          all.push_back({.mainloop = 90,
                         .pass = static_cast<std::int32_t>(KernelPass::dq_dk_dv),
                         .tile_m = tile_m,
                         .tile_n = tile_n,
                         .warps = 8,
                         .stages = stages,
                         .pingpong = pingpong});
        }
      }
    }
  }
  return all;
}

std::vector<RenderedConstant> constants(const KernelSpec& spec) {
  const wgmma_rules::RegisterShares shares = wgmma_rules::register_shares(spec.config, spec.arch);
  return {{"packed_heads", 1},
          {"computes_ds", 1},
          {"sums_dq", 1},
          {"orders_sums", orders_sums(spec.config)},
          {"splits_gradients", splits_gradients(spec.config)},
          {"producer_registers", shares.producer},
          {"consumer_registers", shares.consumer}};
}

std::vector<WgmmaShape> wgmma_shapes(const KernelSpec& spec) {
  using enum WgmmaOperand;
  const DType dtype = spec.traits.dtype;
  const std::int32_t queries = spec.config.tile_n, d = padded_dim(spec.traits.head_dim);
  const WgmmaShape dq = is_transposed(spec.traits) ? WgmmaShape{dtype, queries, mn_major, k_major}
                                                   : WgmmaShape{dtype, d, k_major, mn_major};
  return {{dtype, queries, k_major, k_major},                                // S and dP
          {dtype, padded_dim(spec.traits.head_dim_v), registers, mn_major},  // dV
          {dtype, d, registers, mn_major},                                   // dK
          dq};
}

constexpr Tunable kTunables[] = {{"tile_m", 16, kMostTile}, {"tile_n", 16, wgmma_rules::kMostColumns, 16},
                                 {"warps", 4, 12},          {"stages", 1, kMostStages},
                                 {"ctas_per_sm", 1, 1},     {"pingpong", 0, 1}};
constexpr Tunable kTunablesOfConvert[] = {{"tile_m", 16, kMostTile, 16}, {"warps", 4, 16}};

/// A kind of pass dq_dk_dv, or the one that takes turns at dQ.
constexpr KernelKind summing_kind(KernelPass pass, const char* name, int section_mb,
                                  decltype(KernelKind::configs) all) {
  return {
      .mainloop = 90,
      .pass = pass,
      .name = name,
      .main = "attention/backward/sm90/kernel.cu",
      .entry = "fa2_backward",
      .make_step = backward_sm90_step,
      .section_bytes = section_mb << 20,
      .tunables = kTunables,
      .default_config = {.mainloop = 90,
                         .pass = static_cast<std::int32_t>(pass),
                         .tile_m = 128,
                         .tile_n = 64,
                         .warps = 8,
                         .stages = 2},
      .runs_on = wgmma_rules::runs_on,
      .check = check,
      .check_registers = check_registers,
      .threads = wgmma_rules::threads,
      .shared_bytes = shared_bytes,
      .estimated_registers = estimated_registers,
      .configs = all,
      .constants = constants,
      .wgmma_shapes = wgmma_shapes,
  };
}

}  // namespace

namespace backward_sm90 {

int sum_cols(const AttentionTraits& traits) {
  const int d = padded_dim(traits.head_dim);
  return d > 128 ? 256 : d > 64 ? 128 : d;
}

KernelConfig convert_config(const KernelConfig& summing) {
  KernelConfig config = kBackwardConvert.default_config;
  config.tile_m = summing.tile_n;
  config.warps = summing.warps;
  return config;
}

}  // namespace backward_sm90

constexpr KernelKind kBackwardSm90 = summing_kind(KernelPass::dq_dk_dv, "backward_sm90", 16, configs);

/// Not searched: what is fastest depends on the batch, whose other entries must not change an entry's bits. Of more heads,
/// fewer tiles of one are there at once, to wait for one another.
constexpr KernelKind kOrderedBackwardSm90 = summing_kind(
    KernelPass::ordered_dq_dk_dv, "ordered_backward_sm90", 128,
    [](const AttentionTraits&, const Arch&) { return std::vector{kOrderedBackwardSm90.default_config}; });

constexpr KernelKind kBackwardConvert = {
    .mainloop = 90,
    .pass = KernelPass::dq_convert,
    .name = "backward_convert",
    .main = "attention/backward/convert.cu",
    .entry = "fa2_backward_convert",
    .make_step = backward_sm80_step,
    .section_bytes = 0,
    .tunables = kTunablesOfConvert,
    .default_config = {.mainloop = 90,
                       .pass = static_cast<std::int32_t>(KernelPass::dq_convert),
                       .tile_m = 64,
                       .warps = 8},
    .runs_on = wgmma_rules::runs_on,
    .check =
        [](const KernelSpec& spec, BrokenRules& rules) {
          check_of_both(spec, rules);
          check_sums(spec, spec.config.tile_m, rules);
        },
    .check_registers = [](const KernelSpec&, BrokenRules&) {},
    .threads = mma_rules::threads,
    .shared_bytes =
        [](const AttentionTraits& traits, const KernelConfig& config) {
          return config.tile_m * padded_dim(traits.head_dim) * 2;
        },
    .estimated_registers = [](const AttentionTraits&,
                              const KernelConfig& config) { return config.tile_m / 2 + 32; },
    .configs = [](const AttentionTraits&,
                  const Arch&) { return std::vector{kBackwardConvert.default_config}; },
    .constants =
        [](const KernelSpec&) {
          return std::vector<RenderedConstant>{{"packed_heads", 1}};
        },
    .wgmma_shapes = [](const KernelSpec&) { return std::vector<WgmmaShape>(); },
};

}  // namespace fa2
