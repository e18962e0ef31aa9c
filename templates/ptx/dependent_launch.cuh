// Programmatic dependent launch: a launch starts while the previous one in its stream ends. It must wait
// before it touches memory that others use. Before sm_90 these functions do nothing.
#pragma once

#include "ptx/keywords.cuh"

namespace fa2::ptx {

/// griddepcontrol.launch_dependents: once every block has called it, blocks of the next launch may use free
/// resources.
FA2_DEVICE void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/// griddepcontrol.wait: waits until previous launches are complete and their writes visible. Returns at once
/// if the launch did not start early.
FA2_DEVICE void wait_for_launches_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace fa2::ptx
