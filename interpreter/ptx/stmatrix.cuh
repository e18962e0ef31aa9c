// Stores of four 8x8 blocks of 16-bit elements from registers to shared memory.
#pragma once

#include "ptx/registers.cuh"

namespace fa2::ptx {

struct MatrixStore {
  SharedAddress row;
  const u32* blocks;
};

/// Moves element (row, col) of block i from lane 4 row + col / 2 of register i. If transposed, row and col
/// are swapped.
template <bool kTransposed>
FA2_DEVICE void store_blocks(Machine& block, int first, void* const* lanes, Site site) {
  for (int i = 0; i < 4; ++i) {
    u32 rows[8];
    for (int row = 0; row < 8; ++row) {
      u16 element[8];
      for (int col = 0; col < 8; ++col) {
        const int major = kTransposed ? col : row, minor = kTransposed ? row : col;
        const u32 pair = static_cast<MatrixStore*>(lanes[4 * major + minor / 2])->blocks[i];
        element[col] = static_cast<u16>(pair >> 16 * (minor % 2));
      }
      rows[row] = static_cast<MatrixStore*>(lanes[8 * i + row])->row;
      block.store_shared_of(first + 8 * i + row, rows[row], element, 16, site);
    }
    block.count_banks(rows, 8, 16, site);
  }
}

FA2_DEVICE void stmatrix_x4(SharedAddress row, const u32 (&blocks)[4], Site site = {}) {
  MatrixStore mine{row, blocks};
  machine->warp_wide("stmatrix.x4", store_blocks<false>, &mine, false, site);
}

FA2_DEVICE void stmatrix_x4_trans(SharedAddress row, const u32 (&blocks)[4], Site site = {}) {
  MatrixStore mine{row, blocks};
  machine->warp_wide("stmatrix.x4.trans", store_blocks<true>, &mine, false, site);
}

}  // namespace fa2::ptx
