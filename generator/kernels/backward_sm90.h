// The kernels of the backward on wgmma, fed by TMA.
#pragma once

#include <generator/kernel_kind.h>

namespace fa2 {

extern const KernelKind kBackwardSm90;         ///< dK, dV and sums of dQ
extern const KernelKind kOrderedBackwardSm90;  ///< the same, always in the same order
extern const KernelKind kBackwardConvert;      ///< dQ from its sums

/// See planning/steps/backward_sm90.cpp.
Step backward_sm90_step(const StepRequest& request);

namespace backward_sm90 {

/// Floats a query has of the sums of dQ (templates/attention/backward/sums.cuh).
int sum_cols(const AttentionTraits& traits);

/// The kernel that converts what `summing`, a config of either, sums.
KernelConfig convert_config(const KernelConfig& summing);

}  // namespace backward_sm90
}  // namespace fa2
