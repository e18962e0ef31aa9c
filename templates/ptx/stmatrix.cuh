// Stores of four 8x8 blocks of 16-bit elements from registers to shared memory (sm_90).
#pragma once

#include "ptx/registers.cuh"

namespace fa2::ptx {

/// stmatrix.x4, the inverse of ldmatrix.x4: lanes 8i to 8i+7 pass the row addresses of block i. Register i
/// holds the element pair (lane % 4) of row (lane / 4) in block i.
FA2_DEVICE void stmatrix_x4(SharedAddress row, const u32 (&blocks)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(blocks[0]),
               "r"(blocks[1]), "r"(blocks[2]), "r"(blocks[3])
               : "memory");
}

/// Like stmatrix_x4(), with every block transposed.
FA2_DEVICE void stmatrix_x4_trans(SharedAddress row, const u32 (&blocks)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),
               "r"(blocks[0]), "r"(blocks[1]), "r"(blocks[2]), "r"(blocks[3])
               : "memory");
}

}  // namespace fa2::ptx
