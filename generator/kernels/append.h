// The kernel that appends to a cache.
#pragma once

#include <generator/kernel_kind.h>

namespace fa2 {

extern const KernelKind kAppend;

}  // namespace fa2
