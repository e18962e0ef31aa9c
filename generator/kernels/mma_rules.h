// Rules of kernels on mma.sync.
#pragma once

#include <generator/kernel_spec.h>
#include <generator/kernels/rules.h>

#include <algorithm>
#include <cstdint>

namespace fa2::mma_rules {

/// Returns the m16 tiles that one warp owns.
inline int m_tiles(const KernelConfig& config) {
  return config.tile_m / (16 * config.warps);
}

inline int threads(const KernelConfig& config) {
  return config.warps * 32;
}

inline void check_tiles(const KernelConfig& c, BrokenRules& rules) {
  const std::int64_t rows = std::int64_t{16} * c.warps;
  rules.expect(c.warps < 1 || c.tile_m % rows == 0,
               "tile_m = {} is no multiple of 16 * warps = {}: every warp owns whole mma tiles", c.tile_m,
               rows);
}

/// Checks that an SM has the registers; `registers`: per thread.
inline void check_registers(const KernelSpec& spec, int registers, BrokenRules& rules) {
  constexpr int kMaxRegisters = 255;
  const KernelConfig& c = spec.config;
  const int available =
      std::min(kMaxRegisters, spec.arch.registers_per_sm / (threads(c) * c.ctas_per_sm) / 8 * 8);
  rules.expect(registers <= available,
               "needs about {} registers a thread, {} are available with {} blocks of {} threads per SM",
               registers, available, c.ctas_per_sm, threads(c));
}

}  // namespace fa2::mma_rules
