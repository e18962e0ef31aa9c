// What the kernel of few queries can be asked for.
#include <generator/kernels/forward_rules.h>
#include <generator/kernels/forward_split.h>
#include <generator/kernels/mma_rules.h>

#include <algorithm>
#include <templates/attention/common/tile_schedule.cuh>

namespace fa2 {
namespace {

constexpr int kMostStages = 4;

/// The queries, and for every warp its ring, in whose place its part comes; and a word.
int shared_bytes(const AttentionTraits& traits, const KernelConfig& config) {
  const int d = padded_dim(traits.head_dim), dv = padded_dim(traits.head_dim_v);
  const int ring = config.stages * config.tile_n * (d + dv) * 2, part = config.tile_m * (dv + 4) * 4;
  return config.tile_m * d * 2 + config.warps * std::max(ring, part) + 16;
}

/// Every warp has all rows of the tile.
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

/// Every combination of the tunables' values, each with as many slots of the rings as fit.
std::vector<KernelConfig> configs(const AttentionTraits& traits, const Arch& arch) {
  std::vector<KernelConfig> all;
  for (const int tile_m : {16, 32}) {
    for (const int warps : {2, 4, 8}) {
      for (const int tile_n : {16, 32, 64}) {
        for (const int q_in_registers : {0, 1}) {
          for (const int ctas_per_sm : {1, 2, 3, 4}) {
            KernelConfig c{.mainloop = kForwardSplit.mainloop,
                           .tile_m = tile_m,
                           .tile_n = tile_n,
                           .warps = warps,
                           .q_in_registers = q_in_registers,
                           .ctas_per_sm = ctas_per_sm};
            c.stages = forward_split::most_stages(traits, c, arch);
            all.push_back(c);
          }
        }
      }
    }
  }
  return all;
}

constexpr Tunable kTunables[] = {{"tile_m", 16, 64, 16},   {"tile_n", 16, 128, 16},
                                 {"warps", 1, 16},         {"stages", 2, kMostStages},
                                 {"q_in_registers", 0, 1}, {"ctas_per_sm", 1, kMostBlocks},
                                 {"packed_heads", 1, 64}};

}  // namespace

namespace forward_split {

int most_stages(const AttentionTraits& traits, const KernelConfig& config, const Arch& arch) {
  return forward_rules::most_stages(traits, config, arch, kMostStages, shared_bytes);
}

}  // namespace forward_split

constexpr KernelKind kForwardSplit = {
    .mainloop = 81,
    .pass = KernelPass::forward,
    .name = "forward_split",
    .main = "attention/forward/sm80/split_kernel.cu",
    .entry = "fa2_attention_forward",
    .make_step = forward_split_step,
    .section_bytes = 0,
    .tunables = kTunables,
    .default_config = {.mainloop = 81, .tile_m = 16, .tile_n = 16, .warps = 4, .stages = 2},
    .runs_on = [](const Arch&) { return true; },
    .check = forward_rules::check_packed_heads,
    .check_registers = check_registers,
    .threads = mma_rules::threads,
    .shared_bytes = shared_bytes,
    .estimated_registers = estimated_registers,
    .configs = configs,
    .constants =
        [](const KernelSpec&) {
          return std::vector<RenderedConstant>{{"schedule", kSplitKeys}};
        },
    .wgmma_shapes = [](const KernelSpec&) { return std::vector<WgmmaShape>(); },
};

}  // namespace fa2
