// The forward kernel on wgmma, fed by TMA.
#pragma once

#include <generator/kernel_kind.h>
#include <generator/kernels/wgmma_rules.h>

namespace fa2 {

extern const KernelKind kForwardSm90;

/// See planning/steps/forward_sm90.cpp.
Step forward_sm90_step(const StepRequest& request);

namespace forward_sm90 {

/// Slots of the ring that fit the shared memory, `config.stages` aside; at least 2.
int most_stages(const AttentionTraits& traits, const KernelConfig& config, const Arch& arch);

wgmma_rules::RegisterShares register_shares(const KernelSpec& spec);

}  // namespace forward_sm90
}  // namespace fa2
