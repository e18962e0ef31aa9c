// The kernel that merges attention over parts of the keys.
#pragma once

#include <generator/kernel_kind.h>

namespace fa2 {

extern const KernelKind kMerge;

/// See planning/steps/merge.cpp.
Step merge_step(const StepRequest& request);

}  // namespace fa2
