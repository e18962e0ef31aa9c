// What the main loop on mma.sync and cp.async can be asked for.
#include <fmt/format.h>
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

std::optional<std::string> broken_rule(const KernelConfig& c) {
  if (c.stages < 1 || c.stages > 4) return fmt::format("stages = {}, must be 1..4", c.stages);
  if (c.q_in_registers < 0 || c.q_in_registers > 1) {
    return fmt::format("q_in_registers = {}, must be 0 or 1", c.q_in_registers);
  }
  if (c.q_buffers != 0 || c.schedule != 0 || c.overlap != 0 || c.pingpong != 0 || c.speculative_max != 0 ||
      c.skip_masked != 0)
    return "q_buffers, schedule, overlap, pingpong, speculative_max and skip_masked are of main loop 90 "
           "alone, "
           "else 0";
  if (c.packed_heads != 1) return "packed_heads is of main loop 90 alone, else 1";
  return std::nullopt;
}

std::optional<std::string> broken_register_rule(const KernelSpec& spec) {
  constexpr int kMaxRegisters = 255;
  const KernelConfig& c = spec.config;
  const int available =
      std::min(kMaxRegisters, spec.arch.registers_per_sm / (c.threads() * c.ctas_per_sm) / 8 * 8);
  const int registers = estimated_registers(spec.traits, c);
  if (registers <= available) return std::nullopt;
  return fmt::format(
      "needs about {} registers a thread, {} are available with {} blocks of {} threads per SM", registers,
      available, c.ctas_per_sm, c.threads());
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
