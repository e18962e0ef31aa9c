// A warp's part of dQ in the fused backward kernel on mma.sync. All keys of the block contribute to dQ.
#pragma once

#include "attention/backward/score_gradient.cuh"
#include "attention/backward/sm80/layout.cuh"
#include "attention/backward/sm80/sums.cuh"
#include "ptx/barrier.cuh"
#include "tile/gemm.cuh"

namespace fa2 {

/// Divides a dQ tile of kRows x kCols among a block's warps, in units of 16 x 16. Some warps get less if the
/// units do not divide evenly.
template <int kRows, int kCols, int kWarps>
struct QueryGradientShares {
  FA2_DEVICE static constexpr int cols_with(int row_groups) {
    const int groups = kWarps / row_groups;
    return (kCols / 16 + groups - 1) / groups * 16;
  }
  /// Returns the number of row groups with the least work per warp and, among equals, the fewest operands to
  /// read.
  FA2_DEVICE static constexpr int best_row_groups() {
    int best = 1, least = 0;
    for (int groups = 1; groups <= kWarps; groups *= 2) {
      if (kRows % (16 * groups) != 0 || kWarps % groups != 0) continue;
      const int rows = kRows / groups, cols = cols_with(groups);
      const int cost = 1024 * rows * cols + rows + cols;
      if (least == 0 || cost < least) best = groups, least = cost;
    }
    return best;
  }

  static constexpr int row_groups = best_row_groups();
  static constexpr int rows = kRows / row_groups;
  static constexpr int cols = cols_with(row_groups);
  static constexpr bool are_equal = kWarps / row_groups * cols == kCols;

  int first_row;
  int first_col;

  FA2_DEVICE static QueryGradientShares of(int warp) {
    return {warp % row_groups * rows, warp / row_groups * cols};
  }
  FA2_DEVICE bool has(int col) const { return are_equal || first_col + col < kCols; }
};

template <class Config>
struct QueryGradientSm80 {
  using Element = typename Config::Element;
  using Layout = BackwardLayout<Config>;
  using Shares = QueryGradientShares<Config::tile_n, Layout::padded_dim, Config::warps>;
  using Sums = QuerySumsSm80<Config>;
  static constexpr int kM = Shares::rows / 16;

  const BackwardParams& params;
  const SequenceShape& shape;
  typename Layout::OwnTile k;
  SharedAddress shared;
  Shares share;

  /// Returns the tile for dS of query block `n`, one row per key. There are two, because a warp may write the
  /// next dS while others still read the last one.
  FA2_DEVICE typename Layout::ScoreTile scores(int n) const {
    return {shared + static_cast<u32>(Layout::score_start + (n & 1) * Layout::ScoreTile::bytes)};
  }

  /// Adds dS K for block `n` of a head's queries to the dQ accumulator. dS of all warps must be in shared
  /// memory.
  FA2_DEVICE void add(int head, int n) const {
    AccumulatorTile<kM, Shares::cols / 8> dq;
    dq.clear();
    const typename Layout::ScoreTile ds = scores(n);
    FA2_UNROLL
    for (int key = 0; key < Config::tile_m; key += 16) {
      const OperandA<kM> a = load_operand_a_trans<kM>(ds, key, share.first_row);
      FA2_UNROLL
      for (int col = 0; col < Shares::cols; col += 16) {
        if (share.has(col)) gemm_nn_block<Element>(dq, col / 8, a, k, key, share.first_col + col);
      }
    }
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      float* const row =
          Sums::address(params, shape, head, n * Config::tile_n + share.first_row + 16 * m, share.first_col);
      FA2_UNROLL
      for (int col = 0; col < Shares::cols; col += 8) {
        if (share.has(col)) Sums::add(row + col / 8 * Sums::block_floats, dq.value[m][col / 8]);
      }
    }
  }

  /// Adds the block that was visited last. On return the ring is free for the next head.
  template <class Ring>
  FA2_DEVICE void add_last(int head, const Ring& ring) const {
    ptx::bar_sync();
    if (!ring.blocks.is_empty()) add(head, ring.blocks.begin);
  }
};

/// Returns LSE and delta for the ring's current query block.
template <class Config, int kM, class Ring>
FA2_DEVICE ColumnStatistics<kM, PreparedOffsets> prepared_statistics(const Ring& ring) {
  return {ring.statistics_tile(), ring.statistics_tile() + 4 * Config::tile_n};
}

}  // namespace fa2
