// Warpgroup-level products of register and swizzled tiles. All are asynchronous: a later wgmma_wait_group()
// completes them.
#pragma once

#include "ptx/wgmma_shapes.cuh"
#include "tile/register_tile.cuh"
#include "tile/swizzled_tile.cuh"

namespace fa2 {

/// Returns the tile's registers in order. wgmma distributes a warp's 16 rows to its lanes like mma.m16n8k16.
template <int kN>
FA2_DEVICE float (&flat(AccumulatorTile<1, kN>& tile))[4 * kN] {
  return reinterpret_cast<float(&)[4 * kN]>(tile.value);
}

/// Issues c = A B^T, summed over the columns of both.
template <class Element, int kN, int kRows, int kCols>
FA2_DEVICE void wgmma_nt(AccumulatorTile<1, kN>& c, SwizzledTile<64, kCols> a, SwizzledTile<kRows, kCols> b) {
  using ptx::Major;
  static_assert(kN * 8 == kRows, "B's rows are the accumulator's columns");
  ptx::wgmma_ss<Element, kRows, Major::k, Major::k>(flat(c), a.by_columns(0), b.by_columns(0));
  FA2_UNROLL
  for (int k = 1; k < kCols / 16; ++k)
    ptx::wgmma_ss<Element, kRows, Major::k, Major::k>(flat(c), a.by_columns(k), b.by_columns(k), true);
}

/// Issues c += A B, summed over B's rows. Of B it takes as many columns as c has, from `first_col` on, which must begin a
/// group.
template <class Element, int kN, int kSteps, int kRows, int kCols>
FA2_DEVICE void wgmma_nn(AccumulatorTile<1, kN>& c, const OperandA<1> (&a)[kSteps],
                         SwizzledTile<kRows, kCols> b, int first_col = 0) {
  static_assert(kN * 8 <= kCols && kSteps * 16 == kRows,
                "B's columns are the accumulator's, its rows are A's columns");
  FA2_UNROLL
  for (int k = 0; k < kSteps; ++k)
    ptx::wgmma_rs<Element, kN * 8, ptx::Major::mn>(flat(c), a[k].pair[0], b.by_rows(k, first_col), true);
}

/// Issues c = A B, or with `accumulate` c += A B, summed over B's rows. A: 64 rows of `a` from `first_row`
/// on. B: see above.
template <class Element, int kN, int kRowsA, int kInner, int kCols>
FA2_DEVICE void wgmma_nn(AccumulatorTile<1, kN>& c, SwizzledTile<kRowsA, kInner> a, int first_row,
                         SwizzledTile<kInner, kCols> b, bool accumulate, int first_col = 0) {
  using ptx::Major;
  constexpr int kWidth = kN * 8;
  static_assert(kWidth <= kCols, "B's columns are the accumulator's");
  FA2_UNROLL
  for (int k = 0; k < kInner / 16; ++k) {
    if (k > 0 || accumulate) {
      ptx::wgmma_ss<Element, kWidth, Major::k, Major::mn>(flat(c), a.by_columns(k, first_row),
                                                          b.by_rows(k, first_col), true);
    } else {
      ptx::wgmma_ss<Element, kWidth, Major::k, Major::mn>(flat(c), a.by_columns(k, first_row),
                                                          b.by_rows(k, first_col));
    }
  }
}

/// Issues c = A^T B^T, or with `accumulate` c += A^T B^T, summed over A's rows. A: 64 columns of `a` from
/// `first_col` on. If `a` has fewer columns, the other rows of c come from the memory that follows `a`.
template <class Element, int kN, int kInner, int kColsA, int kRows>
FA2_DEVICE void wgmma_tt(AccumulatorTile<1, kN>& c, SwizzledTile<kInner, kColsA> a, int first_col,
                         SwizzledTile<kRows, kInner> b, bool accumulate) {
  using ptx::Major;
  static_assert(kN * 8 == kRows, "B's rows are the accumulator's columns");
  FA2_UNROLL
  for (int k = 0; k < kInner / 16; ++k) {
    if (k > 0 || accumulate) {
      ptx::wgmma_ss<Element, kRows, Major::mn, Major::k>(flat(c), a.by_rows(k, first_col), b.by_columns(k),
                                                         true);
    } else {
      ptx::wgmma_ss<Element, kRows, Major::mn, Major::k>(flat(c), a.by_rows(k, first_col), b.by_columns(k));
    }
  }
}

/// Keeps the compiler from moving uses of these registers across. Call it before a fence for the registers
/// that a wgmma will use, and after a wait for those that it wrote.
template <int kN>
FA2_DEVICE void hold(AccumulatorTile<1, kN>& tile) {
  ptx::hold_registers(flat(tile));
}
template <int kSteps>
FA2_DEVICE void hold(OperandA<1> (&a)[kSteps]) {
  FA2_UNROLL
  for (int k = 0; k < kSteps; ++k) ptx::hold_registers(a[k].pair[0]);
}

}  // namespace fa2
