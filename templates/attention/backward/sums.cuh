// dQ while it is summed over tiles of keys: float32 in global memory, as accumulators lie in registers.
#pragma once

#include "attention/common/head_rows.cuh"
#include "ptx/atomic.cuh"
#include "ptx/memory.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

/// Floats a query has, of which dQ has kCols columns.
template <int kCols>
constexpr int sum_cols = kCols > 128  ? 256
                         : kCols > 64 ? 128
                                      : kCols;

/// The first tile of a sequence's sums, among those of a head. No two sequences share one: of those packed before it, each
/// fills up one at most.
FA2_DEVICE int first_sum_tile(const SequenceShape& shape, int batch, int queries) {
  return (batch - shape.q_entry) + shape.q_begin / queries;
}

/// Where delta and the exponents' offsets of a sequence begin where sums are of `queries` a tile.
FA2_DEVICE i64 first_sum_row(const BackwardParams& params, const SequenceShape& shape,
                             const TileCoordinates& at, int queries) {
  const i64 head = static_cast<i64>(shape.q_entry) * params.attention.heads_q + at.head;
  return head * params.statistic_rows + static_cast<i64>(first_sum_tile(shape, at.batch, queries)) * queries;
}

/// Where delta of a sequence begins, whether dQ is summed or not.
FA2_DEVICE i64 first_delta_of(const BackwardParams& params, const SequenceShape& shape,
                              const TileCoordinates& at) {
  if (params.statistic_count != 0) return first_sum_row(params, shape, at, params.sum_tile);
  return first_delta(params, shape, at.head);
}

/// Tiles of kQueries queries, by warpgroups of 64 rows of a wgmma: up to 64 columns those are queries; dQ with more is
/// summed as its transpose, whose rows are columns of dQ: any number of queries is one instruction's then.
template <int kQueries, int kCols>
struct QuerySums {
  static constexpr bool transposed = kCols > 64;
  static constexpr int warpgroups = transposed ? 2 : kQueries / 64;
  static constexpr int m_tiles = kCols > 128 ? 2 : 1;  ///< of a warpgroup
  using Accumulators = AccumulatorTile<1, (transposed ? kQueries : kCols) / 8>;
  static constexpr int floats_of_m_tile = kQueries * sum_cols<kCols> / (warpgroups * m_tiles);

  /// How many a head has of `rows`.
  FA2_DEVICE static int tiles(int rows) { return rows / kQueries; }

  /// This thread's share of an m-tile of a warpgroup's.
  FA2_DEVICE static float* address(const BackwardParams& params, i64 tile, int warpgroup, int m) {
    float* const sums = params.delta + 3 * params.statistic_count;
    return sums + ((tile * warpgroups + warpgroup) * m_tiles + m) * floats_of_m_tile +
           ptx::thread_index() % 128 * 4;
  }

  /// From one four of a thread's floats to the next: neighbouring threads' lie between.
  static constexpr int stride = 128 * 4;
};

}  // namespace fa2
