// The kernel that writes dropout's mask.
#pragma once

#include <generator/kernel_kind.h>

namespace fa2 {

extern const KernelKind kDropoutMask;

/// See planning/steps/dropout_mask.cpp.
Step dropout_mask_step(const StepRequest& request);

}  // namespace fa2
