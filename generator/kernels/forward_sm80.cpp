// What the main loop on mma.sync and cp.async can be asked for.
#include <generator/kernels/forward_sm80.h>
#include <generator/kernels/mma_rules.h>

#include <algorithm>

namespace fa2 {
namespace {

int shared_bytes(const AttentionTraits& traits, const KernelConfig& config) {
  const int d = padded_dim(traits.head_dim), dv = padded_dim(traits.head_dim_v);
  const int query = config.tile_m * d * 2, output = config.tile_m * dv * 2;
  const int ring = config.stages * config.tile_n * (d + dv) * 2;
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
}

void check_registers(const KernelSpec& spec, BrokenRules& rules) {
  mma_rules::check_registers(spec, estimated_registers(spec.traits, spec.config), rules);
}

/// Every combination of the tunables' values.
std::vector<KernelConfig> configs(const AttentionTraits&, const Arch&) {
  std::vector<KernelConfig> all;
  for (const int tile_m : {64, 128}) {
    for (const int warps : {4, 8}) {
      for (const int tile_n : {32, 48, 64, 80, 96, 128}) {
        for (const int stages : {1, 2, 3}) {
          for (const int q_in_registers : {0, 1}) {
            for (const int ctas_per_sm : {1, 2, 3}) {
              all.push_back({.mainloop = 80,
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

constexpr Tunable kTunables[] = {{"tile_m", 16, kMostTile}, {"tile_n", 16, kMostTile, 16},
                                 {"warps", 1, 16},          {"stages", 1, 4},
                                 {"q_in_registers", 0, 1},  {"ctas_per_sm", 1, kMostBlocks}};

}  // namespace

constexpr KernelKind kForwardSm80 = {
    .mainloop = 80,
    .pass = KernelPass::forward,
    .name = "forward_sm80",
    .main = "attention/forward/sm80/kernel.cu",
    .entry = "fa2_attention_forward",
    .make_step = forward_sm80_step,
    .section_bytes = 0,
    .tunables = kTunables,
    .default_config = {.mainloop = 80},
    .runs_on = [](const Arch&) { return true; },
    .check = check,
    .check_registers = check_registers,
    .threads = mma_rules::threads,
    .shared_bytes = shared_bytes,
    .estimated_registers = estimated_registers,
    .configs = configs,
    // Of the mask and the epilogue that both forward kernels include.
    .constants =
        [](const KernelSpec&) {
          return std::vector<RenderedConstant>{{"packed_heads", 1}};
        },
    .wgmma_shapes = [](const KernelSpec&) { return std::vector<WgmmaShape>(); },
};

}  // namespace fa2
