// The kernels of the backward on mma.sync, fed by cp.async.
#pragma once

#include <generator/kernel_kind.h>

namespace fa2 {

extern const KernelKind kBackwardDelta;    ///< rowsum(dO * O)
extern const KernelKind kBackwardQueries;  ///< dQ
extern const KernelKind kBackwardKeys;     ///< dK and dV
extern const KernelKind kBackwardDk;       ///< dK alone
extern const KernelKind kBackwardDv;       ///< dV alone
extern const KernelKind kBackwardSinks;    ///< dSinks

/// Makes the launch of every backward kernel without tensor maps (planning/steps/backward.cpp).
Step backward_sm80_step(const StepRequest& request);

}  // namespace fa2
