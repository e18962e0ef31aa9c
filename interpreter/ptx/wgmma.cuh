// Warpgroup MMA: D = A B (+ D) by 128 threads, asynchronously, from shared memory.
#pragma once

#include "machine/matrix_descriptor.cuh"
#include "ptx/element.cuh"

namespace fa2::ptx {

using interpreter::WgmmaOperands;

/// Issues a wgmma for all lanes. `lanes`: pointers to WgmmaOperands.
template <class Element, int kN, Major kMajorA, Major kMajorB>
void issue_wgmma(Machine& block, int first, void* const* lanes, Site site) {
  static_assert(kN % 8 == 0 && kN >= 8 && kN <= 256, "8, 16, ... 256");
  const WgmmaOperands* operands[32];
  for (int lane = 0; lane < 32; ++lane) operands[lane] = static_cast<const WgmmaOperands*>(lanes[lane]);
  block.wgmma(first, {kN, kMajorA == Major::k, kMajorB == Major::k, value_of<Element>}, operands, site);
}

template <class Element, int kN, Major kMajorA, Major kMajorB>
FA2_DEVICE void wgmma_ss(float (&d)[kN / 2], MatrixDescriptor a, MatrixDescriptor b, bool accumulate,
                         Site site = {}) {
  WgmmaOperands mine{d, nullptr, a.bits, b.bits, accumulate};
  machine->warp_wide("wgmma.mma_async", issue_wgmma<Element, kN, kMajorA, kMajorB>, &mine, false, site);
}
template <class Element, int kN, Major kMajorA, Major kMajorB>
FA2_DEVICE void wgmma_ss(float (&d)[kN / 2], MatrixDescriptor a, MatrixDescriptor b, Site site = {}) {
  wgmma_ss<Element, kN, kMajorA, kMajorB>(d, a, b, false, site);
}

template <class Element, int kN, Major kMajorB>
FA2_DEVICE void wgmma_rs(float (&d)[kN / 2], const u32 (&a)[4], MatrixDescriptor b, bool accumulate,
                         Site site = {}) {
  WgmmaOperands mine{d, a, 0, b.bits, accumulate};
  machine->warp_wide("wgmma.mma_async", issue_wgmma<Element, kN, Major::k, kMajorB>, &mine, false, site);
}
template <class Element, int kN, Major kMajorB>
FA2_DEVICE void wgmma_rs(float (&d)[kN / 2], const u32 (&a)[4], MatrixDescriptor b, Site site = {}) {
  wgmma_rs<Element, kN, kMajorB>(d, a, b, false, site);
}

FA2_DEVICE void wgmma_fence(Site site = {}) {
  machine->warp_wide(
      "wgmma.fence", [](Machine& block, int first, void* const*, Site at) { block.wgmma_fence(first, at); },
      nullptr, false, site);
}

FA2_DEVICE void wgmma_commit_group(Site site = {}) {
  machine->warp_wide(
      "wgmma.commit_group",
      [](Machine& block, int first, void* const*, Site at) { block.wgmma_commit_group(first, at); }, nullptr,
      false, site);
}

template <int kPending>
FA2_DEVICE void wgmma_wait_group(Site site = {}) {
  machine->warp_wide(
      "wgmma.wait_group",
      [](Machine& block, int first, void* const*, Site at) { block.wgmma_wait_group(first, kPending, at); },
      nullptr, false, site);
}

/// Empty, because the calls already hold the compiler: they let the arrays' addresses escape.
template <class Register, int kCount>
FA2_DEVICE void hold_registers(Register (&)[kCount]) {}

}  // namespace fa2::ptx
