// Programmatic dependent launch: no launch starts early, but a thread that has not waited may not touch what the launches
// before have written.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

FA2_DEVICE void launch_dependents() {}

FA2_DEVICE void wait_for_launches_before() {
  machine->wait_for_launches_before();
}

}  // namespace fa2::ptx
