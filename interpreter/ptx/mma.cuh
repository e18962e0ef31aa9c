// The tensor core instruction of sm_80 and later GPUs.
#pragma once

#include "ptx/element.cuh"

namespace fa2::ptx {

struct MatrixProduct {
  float* d;
  const u32* a;
  u32 b[2];
};

/// Computes exact products, sums them in double and rounds once; a GPU is no more accurate.
template <class Element>
FA2_DEVICE void multiply(Machine&, int, void* const* lanes, Site) {
  float a[16][16], b[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const auto* from = static_cast<const MatrixProduct*>(lanes[lane]);
    const int g = lane / 4, q = lane % 4;
    for (int i = 0; i < 4; ++i) {
      for (int half = 0; half < 2; ++half) {
        a[g + i % 2 * 8][2 * q + i / 2 * 8 + half] =
            value_of<Element>(static_cast<u16>(from->a[i] >> 16 * half));
      }
    }
    for (int i = 0; i < 2; ++i) {
      for (int half = 0; half < 2; ++half)
        b[2 * q + 8 * i + half][g] = value_of<Element>(static_cast<u16>(from->b[i] >> 16 * half));
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    float* const d = static_cast<const MatrixProduct*>(lanes[lane])->d;
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8, col = lane % 4 * 2 + i % 2;
      double sum = static_cast<double>(d[i]);
      for (int k = 0; k < 16; ++k) sum += static_cast<double>(a[row][k]) * static_cast<double>(b[k][col]);
      d[i] = static_cast<float>(sum);
    }
  }
}

template <class Element>
FA2_DEVICE void mma_m16n8k16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, Site site = {}) {
  MatrixProduct mine{d, a, {b0, b1}};
  machine->warp_wide("mma.m16n8k16", multiply<Element>, &mine, false, site);
}

}  // namespace fa2::ptx
