// The kernel that writes dropout's mask.
#pragma once

#include <generator/kernel_kind.h>

namespace fa2 {

extern const KernelKind kDropoutMask;

}  // namespace fa2
