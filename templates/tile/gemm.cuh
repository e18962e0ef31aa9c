// Warp-level products of register and shared tiles, on mma.m16n8k16.
#pragma once

#include "ptx/mma.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

/// Computes c += A B^T for one k-step: columns [col, col + 16) of B. B's rows are c's columns.
template <class Element, int kM, int kN, class Tile>
FA2_DEVICE void gemm_nt_step(AccumulatorTile<kM, kN>& c, const OperandA<kM>& a, Tile b, int col) {
  static_assert(kN * 8 == Tile::rows, "B's rows are the accumulator's columns");
  FA2_UNROLL
  for (int n = 0; n < kN; n += 2) {
    u32 block[4];
    ptx::ldmatrix_x4(block, b.template block_address<BlockOrder::across>(n * 8, col));
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      ptx::mma_m16n8k16<Element>(c.value[m][n], a.pair[m], block[0], block[1]);
      ptx::mma_m16n8k16<Element>(c.value[m][n + 1], a.pair[m], block[2], block[3]);
    }
  }
}

/// Computes columns [8 n, 8 n + 16) of c += A B for one k-step. It uses B at rows [row, row + 16), columns
/// [col, col + 16).
template <class Element, int kM, int kN, class Tile>
FA2_DEVICE void gemm_nn_block(AccumulatorTile<kM, kN>& c, int n, const OperandA<kM>& a, Tile b, int row,
                              int col) {
  u32 block[4];
  ptx::ldmatrix_x4_trans(block, b.template block_address<BlockOrder::down>(row, col));
  FA2_UNROLL
  for (int m = 0; m < kM; ++m) {
    ptx::mma_m16n8k16<Element>(c.value[m][n], a.pair[m], block[0], block[1]);
    ptx::mma_m16n8k16<Element>(c.value[m][n + 1], a.pair[m], block[2], block[3]);
  }
}

/// Computes c += A B for one k-step: rows [row, row + 16) of B. B's columns are c's first.
template <class Element, int kM, int kN, class Tile>
FA2_DEVICE void gemm_nn_step(AccumulatorTile<kM, kN>& c, const OperandA<kM>& a, Tile b, int row) {
  static_assert(kN * 8 >= Tile::cols, "B's columns are the accumulator's first");
  FA2_UNROLL
  for (int n = 0; n < Tile::cols / 8; n += 2) gemm_nn_block<Element>(c, n, a, b, row, n * 8);
}

/// Computes c += A B^T. A: rows [row, row + 16 kM) of a shared tile.
template <class Element, int kM, int kN, class TileA, class TileB>
FA2_DEVICE void gemm_nt(AccumulatorTile<kM, kN>& c, TileA a, int row, TileB b) {
  FA2_UNROLL
  for (int k = 0; k < TileA::cols; k += 16) gemm_nt_step<Element>(c, load_operand_a<kM>(a, row, k), b, k);
}

/// Computes c += A B. A: accumulators, which are rounded to Element.
template <class Element, int kM, int kN, int kSteps, class Tile>
FA2_DEVICE void gemm_nn(AccumulatorTile<kM, kN>& c, const AccumulatorTile<kM, kSteps>& a, Tile b) {
  FA2_UNROLL
  for (int k = 0; k < kSteps / 2; ++k) gemm_nn_step<Element>(c, round_to_operand_a<Element>(a, k), b, 16 * k);
}

}  // namespace fa2
