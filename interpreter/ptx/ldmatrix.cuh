// Loads of four 8x8 blocks of 16-bit elements from shared memory into mma fragments.
#pragma once

#include "ptx/registers.cuh"

namespace fa2::ptx {

struct MatrixLoad {
  SharedAddress row;
  u32* blocks;
};

/// Moves element (row, col) of block i to lane 4 row + col / 2 of register i. If transposed, row and col are
/// swapped.
template <bool kTransposed>
FA2_DEVICE void load_blocks(Machine& block, int first, void* const* lanes, Site site) {
  u16 element[4][8][8];
  for (int i = 0; i < 4; ++i) {
    u32 rows[8];
    for (int row = 0; row < 8; ++row) {
      rows[row] = static_cast<MatrixLoad*>(lanes[8 * i + row])->row;
      block.load_shared_of(first + 8 * i + row, rows[row], element[i][row], 16, site);
    }
    block.count_banks(rows, 8, 16, site);
  }
  for (int lane = 0; lane < 32; ++lane) {
    const int major = lane / 4, minor = lane % 4 * 2;
    for (int i = 0; i < 4; ++i) {
      const u32 low = kTransposed ? element[i][minor][major] : element[i][major][minor];
      const u32 high = kTransposed ? element[i][minor + 1][major] : element[i][major][minor + 1];
      static_cast<MatrixLoad*>(lanes[lane])->blocks[i] = low | high << 16;
    }
  }
}

FA2_DEVICE void ldmatrix_x4(u32 (&blocks)[4], SharedAddress row, Site site = {}) {
  MatrixLoad mine{row, blocks};
  machine->warp_wide("ldmatrix.x4", load_blocks<false>, &mine, false, site);
}

FA2_DEVICE void ldmatrix_x4_trans(u32 (&blocks)[4], SharedAddress row, Site site = {}) {
  MatrixLoad mine{row, blocks};
  machine->warp_wide("ldmatrix.x4.trans", load_blocks<true>, &mine, false, site);
}

}  // namespace fa2::ptx
