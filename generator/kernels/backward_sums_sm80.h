// The kernels of the backward on mma.sync that sum dQ over tiles of keys.
#pragma once

#include <generator/kernel_kind.h>

namespace fa2 {

extern const KernelKind kBackwardSm80;         ///< dK, dV and sums of dQ
extern const KernelKind kBackwardConvertSm80;  ///< dQ from its sums

}  // namespace fa2
