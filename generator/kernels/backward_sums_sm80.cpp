// What the backward of five products on mma.sync and cp.async can be asked for.
#include <generator/kernels/backward_sm80.h>
#include <generator/kernels/backward_sums_sm80.h>
#include <generator/kernels/mma_rules.h>

#include <algorithm>
#include <cstdint>

namespace fa2 {
namespace {

constexpr int kMostWarps = 16;

bool runs_on(const Arch&) {
  return true;
}

/// K and V of a block, slots of Q and dO with two floats a query, and two places for dS.
int shared_bytes(const AttentionTraits& traits, const KernelConfig& c) {
  const int row = (padded_dim(traits.head_dim) + padded_dim(traits.head_dim_v)) * 2;
  return c.tile_m * row + c.stages * c.tile_n * (row + 8) + 2 * c.tile_m * c.tile_n * 2;
}

/// m16 tiles of keys that a warp owns dK and dV of, or one of them.
int m_tiles(const KernelConfig& c) {
  return c.split_gradients == 1 ? c.tile_m / (8 * c.warps) : mma_rules::m_tiles(c);
}

/// dK and dV beside S and dP, or one of each; dQ takes the registers of scores.
int estimated_registers(const AttentionTraits& traits, const KernelConfig& c) {
  constexpr int kAddressesAndOperands = 48;
  const int d = padded_dim(traits.head_dim), dv = padded_dim(traits.head_dim_v);
  const int columns = c.split_gradients == 1 ? std::max(d, dv) + c.tile_n : d + dv + 2 * c.tile_n;
  return m_tiles(c) * columns / 2 + kAddressesAndOperands;
}

void check_of_both(const KernelSpec& spec, BrokenRules& rules) {
  rules.expect(!spec.traits.varlen, "main loop 80 sums no dQ of packed sequences yet");
  rules.expect(!spec.traits.dropout, "main loop 80 sums no dQ with dropout yet");
}

void check(const KernelSpec& spec, BrokenRules& rules) {
  const KernelConfig& c = spec.config;
  check_of_both(spec, rules);
  if (c.split_gradients == 0) return mma_rules::check_tiles(c, rules);
  rules.expect(c.warps % 2 == 0, "warps = {}, must be even with split_gradients = 1", c.warps);
  rules.expect(c.warps < 2 || c.tile_m % (8 * c.warps) == 0,
               "tile_m = {} is no multiple of 8 * warps = {}: every two warps own whole mma tiles", c.tile_m,
               8 * c.warps);
}

void check_registers(const KernelSpec& spec, BrokenRules& rules) {
  mma_rules::check_registers(spec, estimated_registers(spec.traits, spec.config), rules);
}

std::vector<KernelConfig> configs(const AttentionTraits&, const Arch&) {
  std::vector<KernelConfig> all;
  for (const int tile_m : {64, 128}) {
    for (const int warps : {4, 8}) {
      for (const int tile_n : {16, 32, 48, 64, 128}) {
        for (const int stages : {1, 2}) {
          for (const int split_gradients : {0, 1}) {
            all.push_back({.mainloop = 80,
                           .pass = static_cast<std::int32_t>(KernelPass::dq_dk_dv),
                           .tile_m = tile_m,
                           .tile_n = tile_n,
                           .warps = warps,
                           .stages = stages,
                           .split_gradients = split_gradients});
          }
        }
      }
    }
  }
  return all;
}

/// Whether red adds four floats at once.
RenderedConstant adds_four(const Arch& arch) {
  return {"adds_four", arch.compute_capability >= 90};
}

std::vector<RenderedConstant> constants(const KernelSpec& spec) {
  return {{"packed_heads", 1}, {"owns_keys", 1}, {"computes_ds", 1}, {"sums_dq", 1}, adds_four(spec.arch)};
}

std::vector<WgmmaShape> no_wgmma(const KernelSpec&) {
  return {};
}

constexpr Tunable kTunables[] = {{"tile_m", 16, kMostTile},       {"tile_n", 16, kMostTile, 16},
                                 {"warps", 1, kMostWarps},        {"stages", 1, 4},
                                 {"ctas_per_sm", 1, kMostBlocks}, {"split_gradients", 0, 1}};
constexpr Tunable kTunablesOfConvert[] = {{"tile_m", 16, kMostTile, 16}, {"warps", 1, kMostWarps}};

}  // namespace

constexpr KernelKind kBackwardSm80 = {
    .mainloop = 80,
    .pass = KernelPass::dq_dk_dv,
    .name = "backward_sm80",
    .main = "attention/backward/sm80/kernel.cu",
    .entry = "fa2_backward",
    .make_step = backward_sm80_step,
    .section_bytes = 16 << 20,
    .tunables = kTunables,
    .default_config = {.mainloop = 80,
                       .pass = static_cast<std::int32_t>(KernelPass::dq_dk_dv),
                       .tile_m = 64,
                       .tile_n = 16,
                       .warps = 8,
                       .split_gradients = 1},
    .runs_on = runs_on,
    .check = check,
    .check_registers = check_registers,
    .threads = mma_rules::threads,
    .shared_bytes = shared_bytes,
    .estimated_registers = estimated_registers,
    .configs = configs,
    .constants = constants,
    .wgmma_shapes = no_wgmma,
};

constexpr KernelKind kBackwardConvertSm80 = {
    .mainloop = 80,
    .pass = KernelPass::dq_convert,
    .name = "backward_convert_sm80",
    .main = "attention/backward/sm80/convert.cu",
    .entry = "fa2_backward_convert",
    .make_step = backward_sm80_step,
    .section_bytes = 0,
    .tunables = kTunablesOfConvert,
    .default_config = {.mainloop = 80,
                       .pass = static_cast<std::int32_t>(KernelPass::dq_convert),
                       .tile_m = 64,
                       .warps = 4},
    .runs_on = runs_on,
    .check =
        [](const KernelSpec& spec, BrokenRules& rules) {
          const KernelConfig& c = spec.config;
          check_of_both(spec, rules);
          rules.expect(c.tile_m == 16 * c.warps, "tile_m = {}, must be 16 * warps = {}", c.tile_m,
                       16 * c.warps);
        },
    .check_registers = [](const KernelSpec&, BrokenRules&) {},
    .threads = mma_rules::threads,
    .shared_bytes =
        [](const AttentionTraits& traits, const KernelConfig& config) {
          return config.tile_m * padded_dim(traits.head_dim) * 2;
        },
    .estimated_registers = [](const AttentionTraits& traits,
                              const KernelConfig&) { return padded_dim(traits.head_dim) / 2 + 8; },
    .configs = [](const AttentionTraits&,
                  const Arch&) { return std::vector{kBackwardConvertSm80.default_config}; },
    .constants =
        [](const KernelSpec& spec) {
          return std::vector<RenderedConstant>{{"packed_heads", 1}, adds_four(spec.arch)};
        },
    .wgmma_shapes = no_wgmma,
};

}  // namespace fa2
