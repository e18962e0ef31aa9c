// The kernel that merges attention over parts of the keys.
#pragma once

#include <generator/kernel_kind.h>

namespace fa2 {

extern const KernelKind kMerge;

}  // namespace fa2
