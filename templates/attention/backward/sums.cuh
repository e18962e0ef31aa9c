// The dQ accumulator, to which key tiles add in global memory: float32, in register order.
#pragma once

#include "attention/common/head_rows.cuh"
#include "ptx/atomic.cuh"
#include "ptx/memory.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

/// Floats per query, for kCols columns of dQ.
template <int kCols>
constexpr int sum_cols = kCols > 128  ? 256
                         : kCols > 64 ? 128
                                      : kCols;

/// Returns the sequence's first accumulator tile in its head. No two sequences share a tile, because each
/// sequence before adds at most one partly filled tile.
FA2_DEVICE int first_sum_tile(const SequenceShape& shape, int batch, int queries) {
  return (batch - shape.q_entry) + shape.q_begin / queries;
}

/// Returns the sequence's first index in delta and the LSE offsets, if accumulator tiles have `queries`
/// queries.
FA2_DEVICE i64 first_sum_row(const BackwardParams& params, const SequenceShape& shape,
                             const TileCoordinates& at, int queries) {
  const i64 head = static_cast<i64>(shape.q_entry) * params.attention.heads_q + at.head;
  return head * params.statistic_rows + static_cast<i64>(first_sum_tile(shape, at.batch, queries)) * queries;
}

/// Returns the sequence's first index in delta, with or without a dQ accumulator.
FA2_DEVICE i64 first_delta_of(const BackwardParams& params, const SequenceShape& shape,
                              const TileCoordinates& at) {
  if (params.statistic_count != 0) return first_sum_row(params, shape, at, params.sum_tile);
  return first_delta(params, shape, at.head);
}

/// Accumulator tiles of kQueries queries. Each warpgroup has tiles with the 64 rows of wgmma. Up to 64
/// columns, those rows are queries. A wider dQ is accumulated as its transpose, whose rows are columns of dQ:
/// then one instruction takes any number of queries.
template <int kQueries, int kCols>
struct QuerySums {
  static constexpr bool transposed = kCols > 64;
  static constexpr int warpgroups = transposed ? 2 : kQueries / 64;
  static constexpr int m_tiles = kCols > 128 ? 2 : 1;  ///< wgmma tiles per warpgroup of one block
  using Accumulators = AccumulatorTile<1, (transposed ? kQueries : kCols) / 8>;
  static constexpr int floats_of_m_tile = kQueries * sum_cols<kCols> / (warpgroups * m_tiles);

  /// Returns how many tiles `rows` rows have.
  FA2_DEVICE static int tiles(int rows) { return rows / kQueries; }

  /// Returns the address of this thread's floats in wgmma tile `m` of an accumulator tile.
  FA2_DEVICE static float* address(const BackwardParams& params, i64 tile, int m) {
    return address(params, tile, m, ptx::thread_index() % 128);
  }
  /// Returns the address of the floats of a warpgroup's thread `thread`.
  FA2_DEVICE static float* address(const BackwardParams& params, i64 tile, int m, int thread) {
    float* const sums = params.delta + 3 * params.statistic_count;
    return sums + (tile * (warpgroups * m_tiles) + m) * floats_of_m_tile + thread * 4;
  }

  /// Distance between a thread's groups of four; floats. Other threads' groups lie between.
  static constexpr int stride = 128 * 4;
};

}  // namespace fa2
