// Lists by pass, of what the registers of wider head dims leave room for; not measured against each other yet.
#include <autotune/backward_heuristic.h>
#include <fmt/format.h>
#include <generator/config_space.h>

#include <cstdint>

namespace fa2 {
namespace {

struct Tiles {
  int tile_m, tile_n, warps, stages;
};

/// From the largest tiles to those that fit everywhere.
std::vector<Tiles> tiles_of(KernelPass pass) {
  if (pass == KernelPass::delta) return {{64, KernelConfig{}.tile_n, 4, 1}};
  return {{128, 64, 8, 2}, {64, 64, 4, 2}, {128, 32, 8, 2}, {64, 32, 4, 2}, {64, 32, 4, 1}, {64, 16, 4, 1}};
}

}  // namespace

std::vector<HeuristicChoice> backward_choices(const PlannedProblem& problem, KernelPass pass,
                                              const Arch& arch) {
  std::vector<HeuristicChoice> choices;
  for (const Tiles& tiles : tiles_of(pass)) {
    const KernelConfig config{.mainloop = 80,
                              .pass = static_cast<std::int32_t>(pass),
                              .tile_m = tiles.tile_m,
                              .tile_n = tiles.tile_n,
                              .warps = tiles.warps,
                              .stages = tiles.stages};
    if (why_rejected(problem, config, arch)) continue;
    choices.push_back(
        {config, fmt::format("heuristic: the largest tiles that fit, choice {}", choices.size() + 1)});
  }
  return choices;
}

}  // namespace fa2
