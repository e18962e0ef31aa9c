// The rules of the sm_80 main loop, and the enumeration of what satisfies them.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/config_space.h>

#include <algorithm>

namespace fa2 {

namespace {

constexpr int kMaxRegisters = 255;
constexpr int kMaxTile = 1024;  // beyond what any GPU holds, and far from overflowing the estimates below

int padded(int dim) {
  return (dim + 15) / 16 * 16;
}

/// m16 tiles that one warp owns.
int m_tiles(const KernelConfig& config) {
  return config.tile_m / (16 * config.warps);
}

std::optional<std::string> broken_shape_rule(const KernelConfig& c) {
  if (c.tile_m > kMaxTile || c.tile_n > kMaxTile) {
    return fmt::format("tile_m = {} and tile_n = {} must be at most {}", c.tile_m, c.tile_n, kMaxTile);
  }
  if (c.warps < 1 || c.warps > 16) return fmt::format("warps = {}, must be 1..16", c.warps);
  if (c.tile_m < 16 || c.tile_m % (16 * c.warps) != 0) {
    return fmt::format("tile_m = {} is no multiple of 16 * warps = {}: every warp owns whole mma tiles",
                       c.tile_m, 16 * c.warps);
  }
  if (c.tile_n < 16 || c.tile_n % 16 != 0) return fmt::format("tile_n = {} is no multiple of 16", c.tile_n);
  if (c.stages < 1 || c.stages > 4) return fmt::format("stages = {}, must be 1..4", c.stages);
  if (c.q_in_registers < 0 || c.q_in_registers > 1) {
    return fmt::format("q_in_registers = {}, must be 0 or 1", c.q_in_registers);
  }
  if (c.rescale_threshold < 0 || c.rescale_threshold > 12) {
    return fmt::format("rescale_threshold = {}, must be 0..12: probabilities grow to 2^threshold in 16 bits",
                       c.rescale_threshold);
  }
  if (c.ctas_per_sm < 1 || c.ctas_per_sm > 8)
    return fmt::format("ctas_per_sm = {}, must be 1..8", c.ctas_per_sm);
  return std::nullopt;
}

std::optional<std::string> broken_resource_rule(const KernelSpec& spec) {
  const KernelConfig& c = spec.config;
  const Arch& arch = spec.arch;
  const int shared = shared_bytes(spec.traits, c);
  if (shared > arch.shared_per_block) {
    return fmt::format("needs {} bytes of shared memory, {} has {} per block", shared, arch.name,
                       arch.shared_per_block);
  }
  if ((shared + arch.shared_reserved) * c.ctas_per_sm > arch.shared_per_sm) {
    return fmt::format("{} blocks of {} bytes of shared memory do not fit the {} bytes of one SM of {}",
                       c.ctas_per_sm, shared, arch.shared_per_sm, arch.name);
  }
  if (c.threads() * c.ctas_per_sm > arch.threads_per_sm) {
    return fmt::format("{} blocks of {} threads do not fit the {} threads of one SM of {}", c.ctas_per_sm,
                       c.threads(), arch.threads_per_sm, arch.name);
  }
  const int available =
      std::min(kMaxRegisters, arch.registers_per_sm / (c.threads() * c.ctas_per_sm) / 8 * 8);
  const int registers = estimated_registers(spec.traits, c);
  if (registers > available) {
    return fmt::format(
        "needs about {} registers a thread, {} are available with {} blocks of {} threads per SM", registers,
        available, c.ctas_per_sm, c.threads());
  }
  return std::nullopt;
}

}  // namespace

int shared_bytes(const AttentionTraits& traits, const KernelConfig& config) {
  const int d = padded(traits.head_dim), dv = padded(traits.head_dim_v);
  const int query = config.tile_m * d * 2, output = config.tile_m * dv * 2;
  const int ring = config.stages * config.tile_n * (d + dv) * 2;
  return std::max({query, output, config.q_in_registers ? ring : query + ring});
}

int estimated_registers(const AttentionTraits& traits, const KernelConfig& config) {
  const int m = m_tiles(config);
  const int accumulators = m * (padded(traits.head_dim_v) / 8 + config.tile_n / 8) * 4;
  const int queries = m * 4 * (config.q_in_registers ? padded(traits.head_dim) / 16 : 1);
  const int softmax = m * 4;
  constexpr int kAddressesAndOperands = 24;
  return accumulators + queries + softmax + kAddressesAndOperands;
}

std::optional<std::string> why_rejected(const KernelSpec& spec) {
  if (auto reason = broken_shape_rule(spec.config)) return reason;
  return broken_resource_rule(spec);
}

ConfigSpace config_space(const AttentionTraits& traits, const Arch& arch) {
  ConfigSpace space;
  const auto sort_in = [&](const KernelConfig& config) {
    auto reason = why_rejected({traits, config, arch});
    if (reason) {
      space.rejected.push_back({config, std::move(*reason)});
    } else {
      space.valid.push_back(config);
    }
  };
  for (const int tile_m : {64, 128}) {
    for (const int warps : {4, 8}) {
      for (const int tile_n : {32, 48, 64, 80, 96, 128}) {
        for (const int stages : {1, 2, 3}) {
          for (const int q_in_registers : {0, 1}) {
            for (const int ctas_per_sm : {1, 2, 3}) {
              sort_in({tile_m, tile_n, warps, stages, q_in_registers, ctas_per_sm, 8});
            }
          }
        }
      }
    }
  }
  return space;
}

}  // namespace fa2
