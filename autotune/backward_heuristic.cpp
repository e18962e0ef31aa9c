// Two small blocks an SM, or else a large one.
#include <autotune/backward_heuristic.h>
#include <fmt/format.h>
#include <generator/config_space.h>
#include <generator/kernels/rules.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace fa2 {
namespace {

struct Tiles {
  int tile_m, tile_n, warps, stages;
};

constexpr Tiles kSmall[] = {{64, 64, 4, 2}, {64, 32, 4, 2}, {64, 32, 4, 1}, {64, 16, 4, 1}};
constexpr Tiles kLarge[] = {{128, 64, 8, 2}, {128, 32, 8, 2}};

KernelConfig config_of(KernelPass pass, const Tiles& tiles) {
  return {.mainloop = 80,
          .pass = static_cast<std::int32_t>(pass),
          .tile_m = tiles.tile_m,
          .tile_n = tiles.tile_n,
          .warps = tiles.warps,
          .stages = tiles.stages};
}

/// Whether ptxas does not keep descriptors in uniform registers where one warpgroup has both dK and dV: of packed sequences,
/// with these head dims.
bool loses_descriptors(const PlannedProblem& problem) {
  const auto [least, most] = std::minmax({problem.head_dim, problem.head_dim_v});
  return problem.varlen && most > 80 && least <= 112;
}

/// With few columns exponentials take long, and are hidden by turns; with many the products do (docs/kernel-notes.md). Where
/// registers do not hold both dK and dV, which the compiler may be the first to know, warpgroups own one each.
std::vector<KernelConfig> summing_configs_of_wgmma(const PlannedProblem& problem, KernelPass pass,
                                                   const Arch& arch) {
  const bool is_small = problem.head_dim <= 64;
  KernelConfig whole = default_config(90, static_cast<std::int32_t>(pass));
  whole.tile_n = is_small ? 128 : 64;
  whole.pingpong = is_small ? 1 : 0;
  KernelConfig split = whole;
  split.tile_m = 64;
  if (!is_small && std::max(problem.head_dim, problem.head_dim_v) <= 128) split.tile_n = 96;
  split.pingpong = 0;
  std::vector<KernelConfig> configs;
  if (!loses_descriptors(problem)) configs.push_back(whole);
  configs.push_back(split);
  std::erase_if(configs,
                [&](const KernelConfig& config) { return why_rejected(problem, config, arch).has_value(); });
  return configs;
}

/// Half of eight warps own dV and half dK, of as many keys and beside as many queries as registers hold; with a second stage
/// where there is room for it.
std::vector<KernelConfig> summing_configs_of_mma(const PlannedProblem& problem, const Arch& arch) {
  const int widest = std::max(problem.head_dim, problem.head_dim_v);
  // Blackwell's kernels take a few registers more.
  const bool is_full =
      arch.compute_capability >= 100 && problem.alibi && widest > (problem.window_left ? 64 : 112);
  const int keys = widest > 128 || is_full ? 64 : 128, queries = widest > 64 || problem.softcap ? 32 : 64;
  std::vector<KernelConfig> configs;
  for (const Tiles& tiles : {Tiles{keys, queries, 8, 2}, Tiles{keys, queries, 8, 1}, Tiles{64, queries, 8, 2},
                             Tiles{64, queries, 8, 1}, Tiles{64, 16, 8, 1}}) {
    KernelConfig config = config_of(KernelPass::dq_dk_dv, tiles);
    config.split_gradients = 1;
    if (std::ranges::find(configs, config) == configs.end()) configs.push_back(config);
  }
  return configs;
}

/// On wgmma where that computes the problem.
std::vector<KernelConfig> summing_configs(const PlannedProblem& problem, const Arch& arch) {
  std::vector<KernelConfig> on_wgmma = summing_configs_of_wgmma(problem, KernelPass::dq_dk_dv, arch);
  return on_wgmma.empty() ? summing_configs_of_mma(problem, arch) : on_wgmma;
}

/// Whether the numbers of dropout find no registers beside dK and dV. Blackwell's kernels take a few more.
bool leaves_none_for_dropout(const PlannedProblem& problem, const KernelConfig& config, const Arch& arch) {
  if (!problem.dropout || pass_of(config) != KernelPass::dk_dv) return false;
  const int dim = std::max(problem.head_dim, problem.head_dim_v);
  return (dim > 64 && config.tile_n > 32) ||
         (dim > 96 && config.tile_n > 16 && arch.compute_capability >= 100);
}

/// Two small blocks an SM hide each other's barriers: on an H200 2 to 5% faster than a large one with as many warps
/// (docs/kernel-notes.md). A large one is no worse than two that load without a second stage.
std::vector<KernelConfig> configs_of(const PlannedProblem& problem, KernelPass pass, const Arch& arch) {
  if (pass == KernelPass::delta || pass == KernelPass::d_sinks)
    return {default_config(80, static_cast<std::int32_t>(pass))};
  if (pass == KernelPass::dq_dk_dv) return summing_configs(problem, arch);
  if (pass == KernelPass::ordered_dq_dk_dv) return summing_configs_of_wgmma(problem, pass, arch);
  if (pass == KernelPass::dq_convert) return {};  // goes by the kernel that sums
  std::vector<KernelConfig> configs;
  for (const Tiles& tiles : kSmall) {
    const KernelConfig small = config_of(pass, tiles);
    const SharedMemoryNeed two{arch, shared_bytes(traits_of(problem), small), 2};
    if (tiles.stages > 1 && two.fits()) configs.push_back(small);
  }
  for (const Tiles& tiles : kLarge) configs.push_back(config_of(pass, tiles));
  for (const Tiles& tiles : kSmall) {
    const KernelConfig small = config_of(pass, tiles);
    if (std::ranges::find(configs, small) == configs.end()) configs.push_back(small);
  }
  std::erase_if(configs,
                [&](const KernelConfig& config) { return leaves_none_for_dropout(problem, config, arch); });
  return configs;
}

}  // namespace

std::vector<HeuristicChoice> backward_choices(const PlannedProblem& problem, KernelPass pass,
                                              const Arch& arch) {
  std::vector<HeuristicChoice> choices;
  for (const KernelConfig& config : configs_of(problem, pass, arch)) {
    if (why_rejected(problem, config, arch)) continue;
    choices.push_back(
        {config, fmt::format("heuristic: choice {} of those that fit this pass", choices.size() + 1)});
  }
  return choices;
}

}  // namespace fa2
