// The forward kernel of few queries, whose blocks and warps share out keys.
#pragma once

#include <generator/kernel_kind.h>

namespace fa2 {

extern const KernelKind kForwardSplit;

/// See planning/steps/forward_split.cpp.
Step forward_split_step(const StepRequest& request);

namespace forward_split {

/// Slots of each warp's ring that fit the shared memory, `config.stages` aside; at least 2.
int most_stages(const AttentionTraits& traits, const KernelConfig& config, const Arch& arch);

}  // namespace forward_split
}  // namespace fa2
