// Products with tiles of 8-bit keys and values, which are widened between shared memory and mma.m16n8k16.
//
// ldmatrix moves 16 bits: two neighbouring columns. A lane of a block of keys receives columns 4 q to 4 q + 3, where q =
// lane % 4, and of a block of values, transposed, columns 2 g and 2 g + 1 of two keys, where g = lane / 4. Nothing is
// exchanged between lanes. Instead, queries take the columns of keys, and the output those of values.
#pragma once

#include "ptx/vector8.cuh"
#include "tile/e4m3.cuh"
#include "tile/gemm.cuh"

namespace fa2 {

/// kRows x kCols elements of 8 bits, as a tile of their pairs.
template <int kRows, int kCols>
struct ByteTile : SharedTile<kRows, kCols / 2> {
  static_assert(kCols % 32 == 0, "a block of ldmatrix.x4 has 32 columns");
};

/// Accumulators of products with values of 8 bits: blocks 2 n and 2 n + 1 hold columns 16 n + 4 q + {0, 2} and + {1, 3}.
template <int kM, int kN>
struct InterleavedTile : AccumulatorTile<kM, kN> {};

/// Computes c += A B^T for two k-steps, the second of which need not exist: columns [16 k, 16 k + 32) of B. a.step(k): columns
/// [16 k, 16 k + 16) of A, ordered by order_like_bytes() of byte_queries.cuh.
template <bool kConverts, int kM, int kN, class A, class Tile>
FA2_DEVICE void gemm_nt_bytes_step(AccumulatorTile<kM, kN>& c, const A& a, Tile b, int k) {
  static_assert(kN * 8 == Tile::rows, "B's rows are the accumulator's columns");
  const bool has_second = k + 1 < A::steps;
  const OperandA<kM> first = a.step(k), second = a.step(has_second ? k + 1 : k);
  FA2_UNROLL
  for (int n = 0; n < kN; n += 2) {
    u32 block[4];
    ptx::ldmatrix_x4(block, b.template block_address<BlockOrder::across>(n * 8, 8 * k));
    FA2_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (i % 2 == 1 && !has_second) continue;
      const ptx::PairOfPairs w = widen_to_half<kConverts>(block[i]);
      FA2_UNROLL
      for (int m = 0; m < kM; ++m)
        ptx::mma_m16n8k16<Half>(c.value[m][n + i / 2], (i % 2 == 0 ? first : second).pair[m], w.low, w.high);
    }
  }
}

/// Computes c += A B for one k-step: rows [row, row + 16) of B. Columns of B beyond c's are left out. With `first` and `count`
/// it computes only blocks [first, first + count) of c, in multiples of 4.
template <class Element, bool kConverts, int kM, int kN, class Tile>
FA2_DEVICE void gemm_nn_bytes(InterleavedTile<kM, kN>& c, const OperandA<kM>& a, Tile b, int row,
                              int first = 0, int count = kN) {
  FA2_UNROLL
  for (int n = first; n < first + count; n += 4) {
    u32 block[4];
    ptx::ldmatrix_x4_trans(block, b.template block_address<BlockOrder::down>(row, 4 * n));
    FA2_UNROLL
    for (int i = 0; i < 4 && n + i < kN; i += 2) {
      const Widened<Element> low = widen<Element, kConverts>(block[i]),
                             high = widen<Element, kConverts>(block[i + 1]);
      FA2_UNROLL
      for (int m = 0; m < kM; ++m) {
        ptx::mma_m16n8k16<Element>(c.value[m][n + i], a.pair[m], low.even, high.even);
        ptx::mma_m16n8k16<Element>(c.value[m][n + i + 1], a.pair[m], low.odd, high.odd);
      }
    }
  }
}

/// Like round_into_tile() of register_tile.cuh.
template <class Element, int kM, int kN, class Tile>
FA2_DEVICE void round_into_tile(Tile tile, int first_row, const InterleavedTile<kM, kN>& values) {
  const int lane_col = 2 * fragment_col();
  FA2_UNROLL
  for (int m = 0; m < kM; ++m) {
    FA2_UNROLL
    for (int n = 0; n < Tile::cols / 8; n += 2) {
      const float(&even)[4] = values.value[m][n], (&odd)[4] = values.value[m][n + 1];
      FA2_UNROLL
      for (int half = 0; half < 2; ++half) {
        const SharedAddress chunk =
            tile.chunk_address(first_row + 16 * m + 8 * half + fragment_row(), 8 * n + lane_col / 8 * 8);
        ptx::st_shared_v2(chunk + static_cast<u32>(lane_col % 8 * 2),
                          {{ptx::cvt_rn_x2<Element>(even[2 * half], odd[2 * half]),
                            ptx::cvt_rn_x2<Element>(even[2 * half + 1], odd[2 * half + 1])}});
      }
    }
  }
}

}  // namespace fa2
