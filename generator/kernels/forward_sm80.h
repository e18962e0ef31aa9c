// The forward kernel on mma.sync, fed by cp.async.
#pragma once

#include <generator/kernel_kind.h>

namespace fa2 {

extern const KernelKind kForwardSm80;

/// See planning/steps/forward_sm80.cpp.
Step forward_sm80_step(const StepRequest& request);

}  // namespace fa2
