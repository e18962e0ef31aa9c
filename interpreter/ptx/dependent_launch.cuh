// Programmatic dependent launch: on the interpreter no launch starts early.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

FA2_DEVICE void launch_dependents() {}

FA2_DEVICE void wait_for_launches_before() {}

}  // namespace fa2::ptx
