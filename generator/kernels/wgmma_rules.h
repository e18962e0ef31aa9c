// Rules of kernels on wgmma and TMA.
#pragma once

#include <core/arch.h>
#include <generator/kernel_spec.h>
#include <generator/kernels/rules.h>

#include <algorithm>

namespace fa2::wgmma_rules {

inline constexpr int kMostColumns = 256;  ///< per wgmma

inline bool runs_on(const Arch& arch) {
  return arch.compute_capability == 90;
}

/// Checks that TMA can load the rows.
inline void check_rows(const AttentionTraits& traits, BrokenRules& rules) {
  rules.expect(traits.row_alignment == RowAlignment::bytes16,
               "row_alignment = {}, must be bytes16: TMA loads the rows", to_string(traits.row_alignment));
}

inline int warpgroups(const KernelConfig& config) {
  return config.warps / 4;
}

/// Returns the threads of a block. The producer warp has its own warpgroup, because registers move between warpgroups.
inline int threads(const KernelConfig& config) {
  return config.warps * 32 + 128;
}

/// Returns bytes rounded up to where the pattern of the widest swizzle starts, as every tile must.
inline int aligned(int bytes) {
  return (bytes + 1023) / 1024 * 1024;
}

/// Registers per thread, at launch and after setmaxnreg.
struct RegisterShares {
  int at_launch;
  int producer;
  int consumer;
};

/// Returns the registers of producer and consumers. The producer gets at least `least`.
inline RegisterShares register_shares(const KernelConfig& config, const Arch& arch, int least = 24) {
  constexpr int kMost = 240;
  const int consumers = warpgroups(config);
  const int at_launch = std::min(256, arch.registers_per_sm / (threads(config) * config.ctas_per_sm) / 8 * 8);
  const int total = at_launch * (consumers + 1);
  const int consumer = std::min(kMost, (total - least) / consumers / 8 * 8);
  return {at_launch, std::min(kMost, total - consumer * consumers), consumer};
}

}  // namespace fa2::wgmma_rules
