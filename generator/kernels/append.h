// The kernel that appends to a cache.
#pragma once

#include <generator/kernel_kind.h>

namespace fa2 {

extern const KernelKind kAppend;

/// See planning/steps/append.cpp.
Step append_step(const StepRequest& request);

}  // namespace fa2
