// Where queries stand that are two pieces of a longer sequence. Host code includes this file too.
#pragma once

namespace fa2 {

/// Positions lie in [kLeastPosition, kEndOfPositions), so that sums with lengths and windows stay below 2^31.
constexpr int kLeastPosition = -(1 << 29), kEndOfPositions = 1 << 30;

/// Query i has the position i + first if i < split, else i + second. Positions never decrease, because second >= first.
struct QueryPositions {
  int split;
  int first;
  int second;

  constexpr int of(int query) const { return query + (query < split ? first : second); }

  /// Returns the number of queries before `position`. Of a position before the first query or behind the last one: as if the
  /// pieces went on, so it may be negative or too large.
  constexpr int before(int position) const {
    const int of_first = position - first < split ? position - first : split;
    return of_first > position - second ? of_first : position - second;
  }
};

/// What kernels of such queries get in front of AttentionParams. Its size keeps what lies behind aligned for TMA.
struct QueryPieceParams {
  const int* table;  ///< (batch, 3): split, first and second of each sequence; null: `positions` has them
  QueryPositions positions;
  int unused[11];
};
static_assert(sizeof(QueryPieceParams) == 64, "AttentionParams stay where TensorMaps end");

}  // namespace fa2
