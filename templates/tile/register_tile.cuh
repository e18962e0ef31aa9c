// A warp's register tiles, in the layouts of mma.m16n8k16.
#pragma once

#include "ptx/barrier.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/math.cuh"
#include "ptx/memory.cuh"
#include "tile/shared_tile.cuh"

namespace fa2 {

/// Position of this lane's elements in a 16 x 8 accumulator: value[0..1] at (row, col..col+1), value[2..3] at
/// (row + 8, ...).
FA2_DEVICE int fragment_row() {
  return ptx::lane_index() / 4;
}
FA2_DEVICE int fragment_col() {
  return ptx::lane_index() % 4 * 2;
}

/// Accumulators of a (16 kM) x (8 kN) tile; float32.
template <int kM, int kN>
struct AccumulatorTile {
  static constexpr int m_tiles = kM, n_tiles = kN;
  float value[kM][kN][4];

  FA2_DEVICE void clear() {
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      FA2_UNROLL
      for (int n = 0; n < kN; ++n) {
        FA2_UNROLL
        for (int i = 0; i < 4; ++i) value[m][n][i] = 0.0f;
      }
    }
  }

  FA2_DEVICE void negate() {
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      FA2_UNROLL
      for (int n = 0; n < kN; ++n) {
        FA2_UNROLL
        for (int i = 0; i < 4; ++i) value[m][n][i] = -value[m][n][i];
      }
    }
  }
};

/// Calls of_row(row) for each row of this lane, then the function it returns for every score of the row:
/// f(score, column). Columns count from the lane's first. `first_row`: row of value[0].
template <int kM, int kN, class OfRow>
FA2_DEVICE void for_each_score(AccumulatorTile<kM, kN>& scores, int first_row, const OfRow& of_row) {
  FA2_UNROLL
  for (int m = 0; m < kM; ++m) {
    FA2_UNROLL
    for (int half = 0; half < 2; ++half) {
      const auto visit = of_row(first_row + 16 * m + 8 * half + fragment_row());
      FA2_UNROLL
      for (int n = 0; n < kN; ++n) {
        FA2_UNROLL
        for (int i = 0; i < 2; ++i) visit(scores.value[m][n][2 * half + i], 8 * n + i);
      }
    }
  }
}

/// Calls f(score) for every score.
template <int kM, int kN, class F>
FA2_DEVICE void for_each_score(AccumulatorTile<kM, kN>& scores, const F& f) {
  for_each_score(scores, 0, [&](int) { return [&](float& score, int) { f(score); }; });
}

/// Calls f(a's element, b's element) for every position.
template <int kM, int kN, class F>
FA2_DEVICE void for_each_pair(AccumulatorTile<kM, kN>& a, const AccumulatorTile<kM, kN>& b, const F& f) {
  FA2_UNROLL
  for (int m = 0; m < kM; ++m) {
    FA2_UNROLL
    for (int n = 0; n < kN; ++n) {
      FA2_UNROLL
      for (int i = 0; i < 4; ++i) f(a.value[m][n][i], b.value[m][n][i]);
    }
  }
}

/// Calls f with the four accumulators of every 16 x 8 block, and the block's number.
template <int kM, int kN, class F>
FA2_DEVICE void for_each_four(AccumulatorTile<kM, kN>& of, const F& f) {
  FA2_UNROLL
  for (int m = 0; m < kM; ++m) {
    FA2_UNROLL
    for (int n = 0; n < kN; ++n) f(of.value[m][n], m * kN + n);
  }
}

/// Returns the largest value of the four lanes that share a row.
FA2_DEVICE float quad_maximum(float x) {
  x = ptx::max_f32(x, ptx::shfl_bfly(x, 1));
  return ptx::max_f32(x, ptx::shfl_bfly(x, 2));
}

/// Returns the largest magnitude among this lane's scores.
template <int kM, int kN>
FA2_DEVICE float largest_magnitude(AccumulatorTile<kM, kN>& scores) {
  float largest = 0.0f;
  for_each_score(scores, [&](float& score) { largest = ptx::max_f32(largest, ptx::abs_f32(score)); });
  return largest;
}

/// (16 kM) x 16 elements as an A operand, for one k-step.
template <int kM>
struct OperandA {
  u32 pair[kM][4];
};

/// Returns the A operand at rows [row, row + 16 kM) and columns [col, col + 16) of a shared tile.
template <int kM, class Tile>
FA2_DEVICE OperandA<kM> load_operand_a(Tile tile, int row, int col) {
  OperandA<kM> a;
  FA2_UNROLL
  for (int m = 0; m < kM; ++m)
    ptx::ldmatrix_x4(a.pair[m], tile.template block_address<BlockOrder::down>(row + 16 * m, col));
  return a;
}

/// Like load_operand_a(), for a tile's transpose: its columns [col, col + 16 kM) are rows, its rows [row, row
/// + 16) are columns.
template <int kM, class Tile>
FA2_DEVICE OperandA<kM> load_operand_a_trans(Tile tile, int row, int col) {
  OperandA<kM> a;
  FA2_UNROLL
  for (int m = 0; m < kM; ++m)
    ptx::ldmatrix_x4_trans(a.pair[m], tile.template block_address<BlockOrder::across>(row, col + 16 * m));
  return a;
}

/// Rounds columns [16 step, 16 step + 16) of an accumulator to Element. Two adjacent accumulators form an A
/// operand without a shuffle.
template <class Element, int kM, int kN>
FA2_DEVICE OperandA<kM> round_to_operand_a(const AccumulatorTile<kM, kN>& tile, int step) {
  OperandA<kM> a;
  FA2_UNROLL
  for (int m = 0; m < kM; ++m) {
    FA2_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float(&v)[4] = tile.value[m][2 * step + i / 2];
      a.pair[m][i] = ptx::cvt_rn_x2<Element>(v[i % 2 * 2], v[i % 2 * 2 + 1]);
    }
  }
  return a;
}

/// Rounds accumulators to Element and stores them in a shared tile, from row `first_row` on. Columns beyond
/// the tile's are left out.
template <class Element, int kM, int kN, class Tile>
FA2_DEVICE void round_into_tile(Tile tile, int first_row, const AccumulatorTile<kM, kN>& values) {
  static_assert(kN * 8 >= Tile::cols, "the tile's columns are the accumulator's first");
  FA2_UNROLL
  for (int m = 0; m < kM; ++m) {
    FA2_UNROLL
    for (int n = 0; n < Tile::cols / 8; ++n) {
      const float(&v)[4] = values.value[m][n];
      const int row = first_row + 16 * m + fragment_row();
      const u32 in_chunk = static_cast<u32>(fragment_col() * 2);
      ptx::st_shared_u32(tile.chunk_address(row, 8 * n) + in_chunk, ptx::cvt_rn_x2<Element>(v[0], v[1]));
      ptx::st_shared_u32(tile.chunk_address(row + 8, 8 * n) + in_chunk, ptx::cvt_rn_x2<Element>(v[2], v[3]));
    }
  }
}

}  // namespace fa2
