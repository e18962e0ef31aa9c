// Warpgroup MMA: D = A B (+ D), computed by 128 threads, asynchronously, from shared memory (sm_90a). The
// generator renders a kernel's shapes into ptx/wgmma_shapes.cuh.
#pragma once

#include "machine/matrix_descriptor.cuh"
#include "ptx/registers.cuh"

namespace fa2::ptx {

/// m64nNk16 with both operands in shared memory: D = A B. With `accumulate`: D = A B + (accumulate ? D : 0).
/// For w = warp in its warpgroup, g = lane / 4, q = lane % 4:
///   d[i] is at row 16 w + g + 8 (i / 2 % 2), column 8 (i / 4) + 2 q + i % 2
/// Until the wait that completes it, no thread may touch d or the operands.
template <class Element, int kN, Major kMajorA, Major kMajorB>
FA2_DEVICE void wgmma_ss(float (&d)[kN / 2], MatrixDescriptor a, MatrixDescriptor b);
template <class Element, int kN, Major kMajorA, Major kMajorB>
FA2_DEVICE void wgmma_ss(float (&d)[kN / 2], MatrixDescriptor a, MatrixDescriptor b, bool accumulate);

/// Like wgmma_ss(), with A in registers: element pairs at (g, 2q), (g+8, 2q), (g, 2q+8), (g+8, 2q+8) of the
/// warp's rows. Rounded accumulators of 16 adjacent columns form such an A. `a` is these registers, not a
/// copy: it must stay unchanged and in scope until the wait.
template <class Element, int kN, Major kMajorB>
FA2_DEVICE void wgmma_rs(float (&d)[kN / 2], const u32 (&a)[4], MatrixDescriptor b);
template <class Element, int kN, Major kMajorB>
FA2_DEVICE void wgmma_rs(float (&d)[kN / 2], const u32 (&a)[4], MatrixDescriptor b, bool accumulate);

/// wgmma.fence: must precede the first wgmma, and each wgmma whose accumulators or A registers anything but a
/// wgmma of its shape has touched.
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

/// Keeps the compiler from moving uses of these registers across. Call it before a fence for the registers
/// that a wgmma will use, and after a wait for those that it wrote.
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
