// The forward kernel on wgmma, fed by TMA.
#pragma once

#include <generator/kernel_kind.h>

namespace fa2 {

extern const KernelKind kForwardSm90;

namespace forward_sm90 {

/// Slots of the ring that fit the shared memory, `config.stages` aside; at least 2.
int most_stages(const AttentionTraits& traits, const KernelConfig& config, const Arch& arch);

/// Registers a thread once the warpgroups have shared out what the block was launched with.
struct RegisterShares {
  int at_launch;
  int producer;
  int consumer;
};
RegisterShares register_shares(const KernelSpec& spec);

}  // namespace forward_sm90
}  // namespace fa2
