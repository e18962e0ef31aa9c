// Launches that begin while the one before them in their stream ends: programmatic dependent launch. Such a one waits by
// itself, before it touches memory that others use. Before sm_90 there are none.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

/// griddepcontrol.launch_dependents: once every block has come here, blocks of the next launch may take what room there is.
FA2_DEVICE void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/// griddepcontrol.wait: the launches before are complete, and what they have written is seen. At once in a launch that does
/// not begin early.
FA2_DEVICE void wait_for_launches_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace fa2::ptx
