// What the main loop on mma.sync and cp.async can be asked for.
#include <generator/mainloop_rules.h>

#include <algorithm>

namespace fa2::sm80 {
namespace {

/// m16 tiles that one warp owns.
int m_tiles(const KernelConfig& config) {
  return config.tile_m / (16 * config.warps);
}

}  // namespace

int shared_bytes(const AttentionTraits& traits, const KernelConfig& config) {
  const int d = padded_dim(traits.head_dim), dv = padded_dim(traits.head_dim_v);
  const int query = config.tile_m * d * 2, output = config.tile_m * dv * 2;
  const int ring = config.stages * config.tile_n * (d + dv) * 2;
  return std::max({query, output, config.q_in_registers ? ring : query + ring});
}

int estimated_registers(const AttentionTraits& traits, const KernelConfig& config) {
  const int m = m_tiles(config);
  const int accumulators = m * (padded_dim(traits.head_dim_v) / 8 + config.tile_n / 8) * 4;
  const int queries = m * 4 * (config.q_in_registers ? padded_dim(traits.head_dim) / 16 : 1);
  const int softmax = m * 4;
  constexpr int kAddressesAndOperands = 24;
  return accumulators + queries + softmax + kAddressesAndOperands;
}

ConfigRange range() {
  return {{.mainloop = 80, .tile_m = 16, .tile_n = 16, .warps = 1, .stages = 1},
          {.mainloop = 80,
           .tile_m = kMostTile,
           .tile_n = kMostTile,
           .warps = 16,
           .stages = 4,
           .q_in_registers = 1,
           .ctas_per_sm = kMostBlocks}};
}

void check(const KernelConfig& c, BrokenRules& rules) {
  const std::int64_t rows = std::int64_t{16} * c.warps;
  rules.expect(c.warps < 1 || c.tile_m % rows == 0,
               "tile_m = {} is no multiple of 16 * warps = {}: every warp owns whole mma tiles", c.tile_m,
               rows);
}

void check_registers(const KernelSpec& spec, BrokenRules& rules) {
  constexpr int kMaxRegisters = 255;
  const KernelConfig& c = spec.config;
  const int available =
      std::min(kMaxRegisters, spec.arch.registers_per_sm / (c.threads() * c.ctas_per_sm) / 8 * 8);
  const int registers = estimated_registers(spec.traits, c);
  rules.expect(registers <= available,
               "needs about {} registers a thread, {} are available with {} blocks of {} threads per SM",
               registers, available, c.ctas_per_sm, c.threads());
}

std::vector<KernelConfig> configs() {
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

}  // namespace fa2::sm80
