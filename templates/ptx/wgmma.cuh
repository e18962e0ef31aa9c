// Warpgroup MMA: D = A B (+ D) by 128 threads, asynchronously, from shared memory (sm_90a). The shapes that a
// kernel uses are rendered into ptx/wgmma_shapes.cuh.
#pragma once

#include "machine/matrix_descriptor.cuh"
#include "ptx/registers.cuh"

namespace fa2::ptx {

/// m64nNk16 with both operands in shared memory: D = A B, and with `accumulate` D = A B + (accumulate ? D :
/// 0). With w = warp of the warpgroup, g = lane / 4, q = lane % 4:
///   d[i] is at row 16 w + g + 8 (i / 2 % 2), column 8 (i / 4) + 2 q + i % 2
/// From here to the wait that covers it, neither d nor the operands may be touched.
template <class Element, int kN, Major kMajorA, Major kMajorB>
FA2_DEVICE void wgmma_ss(float (&d)[kN / 2], MatrixDescriptor a, MatrixDescriptor b);
template <class Element, int kN, Major kMajorA, Major kMajorB>
FA2_DEVICE void wgmma_ss(float (&d)[kN / 2], MatrixDescriptor a, MatrixDescriptor b, bool accumulate);

/// The same with A in registers: element pairs at (g, 2q), (g+8, 2q), (g, 2q+8), (g+8, 2q+8) of the warp's
/// rows. Rounded accumulators of 16 neighbouring columns are such an A as they stand. `a` is these registers,
/// not a copy: it too stays untouched, and in scope, until the wait.
template <class Element, int kN, Major kMajorB>
FA2_DEVICE void wgmma_rs(float (&d)[kN / 2], const u32 (&a)[4], MatrixDescriptor b);
template <class Element, int kN, Major kMajorB>
FA2_DEVICE void wgmma_rs(float (&d)[kN / 2], const u32 (&a)[4], MatrixDescriptor b, bool accumulate);

/// wgmma.fence: before a wgmma whose accumulators or A registers anything but a wgmma of the same shape has
/// touched; before the first one.
FA2_DEVICE void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

FA2_DEVICE void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// Waits until at most `kPending` of the warp's newest groups are incomplete.
template <int kPending>
FA2_DEVICE void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// Holds the compiler to the order written: no use of these registers moves across. Before a fence for what a
/// wgmma will use, after a wait for what it made.
template <int kCount>
FA2_DEVICE void hold_registers(float (&registers)[kCount]) {
  FA2_UNROLL
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}
template <int kCount>
FA2_DEVICE void hold_registers(u32 (&registers)[kCount]) {
  FA2_UNROLL
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(registers[i])::"memory");
}

}  // namespace fa2::ptx
