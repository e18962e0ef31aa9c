// Loads of four 8x8 blocks of 16-bit elements from shared memory into mma fragments.
#pragma once

#include "ptx/registers.cuh"

namespace fa2::ptx {

/// ldmatrix.x4: lanes 8i to 8i+7 pass the row addresses of block i. Register i receives the element pair
/// (lane % 4) of row (lane / 4) in block i.
FA2_DEVICE void ldmatrix_x4(u32 (&blocks)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(blocks[0]), "=r"(blocks[1]), "=r"(blocks[2]), "=r"(blocks[3])
               : "r"(row)
               : "memory");
}

/// Like ldmatrix_x4(), with every block transposed.
FA2_DEVICE void ldmatrix_x4_trans(u32 (&blocks)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(blocks[0]), "=r"(blocks[1]), "=r"(blocks[2]), "=r"(blocks[3])
               : "r"(row)
               : "memory");
}

}  // namespace fa2::ptx
