// What kernels on wgmma and TMA have in common.
#pragma once

#include <core/arch.h>
#include <generator/kernel_spec.h>

#include <algorithm>

namespace fa2::wgmma_rules {

inline constexpr int kMostColumns = 256;  ///< of a wgmma

inline bool runs_on(const Arch& arch) {
  return arch.compute_capability == 90;
}

inline int warpgroups(const KernelConfig& config) {
  return config.warps / 4;
}

/// The loading warp has a warpgroup of its own: registers move in units of warpgroups.
inline int threads(const KernelConfig& config) {
  return config.warps * 32 + 128;
}

/// Tiles start where the pattern of the widest swizzle does.
inline int aligned(int bytes) {
  return (bytes + 1023) / 1024 * 1024;
}

/// Registers a thread once the warpgroups have shared out what the block was launched with.
struct RegisterShares {
  int at_launch;
  int producer;
  int consumer;
};

/// `least`: of the producer.
inline RegisterShares register_shares(const KernelConfig& config, const Arch& arch, int least = 24) {
  constexpr int kMost = 240;
  const int consumers = warpgroups(config);
  const int at_launch = std::min(256, arch.registers_per_sm / (threads(config) * config.ctas_per_sm) / 8 * 8);
  const int total = at_launch * (consumers + 1);
  const int consumer = std::min(kMost, (total - least) / consumers / 8 * 8);
  return {at_launch, std::min(kMost, total - consumer * consumers), consumer};
}

}  // namespace fa2::wgmma_rules
