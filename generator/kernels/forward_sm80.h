// The forward kernel on mma.sync, fed by cp.async.
#pragma once

#include <generator/kernel_kind.h>

namespace fa2 {

extern const KernelKind kForwardSm80;

}  // namespace fa2
