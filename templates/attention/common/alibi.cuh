// ALiBi, attention with linear biases: a score falls linearly with the distance between query and key.
#pragma once

#include "attention/common/mask.cuh"
#include "attention/common/scheduler.cuh"
#include "ptx/barrier.cuh"
#include "ptx/memory.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

/// Position of a block's keys relative to the diagonal of every row: all before it, all after it, or both.
enum class Side { before, after, both };

/// Adds -slope * |distance| to the scores of one tile. Distances are between a key and the row's diagonal,
/// which aligns the ends of both sequences, or is the query's position.
template <class Config>
struct Alibi {
  const AttentionParams& params;
  SequenceShape shape;
  TileCoordinates at;
  float first_slope;  ///< slope of the tile's first head

  FA2_DEVICE int diagonal(int row) const {
    if constexpr (Config::query_pieces) return shape.positions.of(row_map_of<Config>(params).query(row));
    return row_map_of<Config>(params).query(row) + shape.seqlen_k - shape.seqlen_q;
  }

  FA2_DEVICE float slope_of(int row) const {
    if (!Config::packs_heads || params.packing.heads == 1) return first_slope;
    return slope_of_head(query_head<Config>(params, at, row));
  }

  FA2_DEVICE float slope_of_head(int head) const {
    return ptx::ld_global_f32(params.alibi_slopes + at.batch * params.alibi_batch_stride + head);
  }

  template <int kM, int kN>
  FA2_DEVICE Side side_of(const AccumulatorTile<kM, kN>&, int first_row, int first_key) const {
    // A causal mask hides the keys after the diagonal, so their bias does not matter.
    if (Config::mask == MaskKind::causal_bottom_right) return Side::before;
    if (first_key + 8 * kN - 1 <= diagonal(first_row)) return Side::before;
    return first_key >= diagonal(first_row + 16 * kM - 1) ? Side::after : Side::both;
  }

  FA2_DEVICE float biased(float s, float slope, float distance) const {
    return ptx::fma_rn(-slope, ptx::abs_f32(distance), s * params.scale);
  }

  /// Scales the scores and adds the bias.
  template <int kM, int kN>
  FA2_DEVICE void scale_and_bias(AccumulatorTile<kM, kN>& scores, int first_row, int first_key) const {
    const int first_col = first_key + fragment_col();
    const Side side = side_of(scores, first_row, first_key);
    if (side == Side::both) {
      for_each_score(scores, first_row, [&](int row) {
        const float slope = slope_of(row), distance = static_cast<float>(diagonal(row) - first_col);
        return [=](float& s, int col) { s = biased(s, slope, distance - static_cast<float>(col)); };
      });
    } else {
      for_each_score(scores, first_row, [&](int row) {
        const float slope = rise(side, row);
        const float start = -slope * static_cast<float>(diagonal(row) - first_col);
        return [=](float& s, int col) {
          s = ptx::fma_rn(slope, static_cast<float>(col), ptx::fma_rn(s, params.scale, start));
        };
      });
    }
  }

  /// Like scale_and_bias(), for a tile whose rows are keys and whose columns are queries.
  template <int kM, int kN>
  FA2_DEVICE void scale_and_bias_keys(AccumulatorTile<kM, kN>& scores, int first_key, int first_query) const {
    const float slope = slope_of(first_query);
    const int first_col = first_query + fragment_col(), first_diagonal = diagonal(first_col);
    for_each_score(scores, first_key, [&](int key) {
      const float distance = static_cast<float>(key - first_diagonal);
      // Renewed, so that the jumps of all columns are not kept from one row to the next.
      const int lane_query = Config::query_pieces ? ptx::renewed_in_lane(first_col) : 0;
      return [=](float& s, int col) {
        s = biased(s, slope, distance - static_cast<float>(col) - jump_between(lane_query, lane_query + col));
      };
    });
  }

  /// Returns by how much more than their numbers the positions of two queries differ. `query` is not before `first`.
  FA2_DEVICE float jump_between(int first, int query) const {
    if constexpr (!Config::query_pieces) return 0.0f;
    const QueryPositions& at = shape.positions;
    return first < at.split && query >= at.split ? static_cast<float>(at.second - at.first) : 0.0f;
  }

  /// Returns by how much the bias grows from one key to the next, on one side of the diagonal.
  FA2_DEVICE float rise(Side side, int row) const {
    return side == Side::before ? slope_of(row) : -slope_of(row);
  }
};

template <class Config>
FA2_DEVICE Alibi<Config> alibi_of(const AttentionParams& params, const SequenceShape& shape,
                                  const TileCoordinates& at) {
  Alibi<Config> alibi{params, shape, at, 0.0f};
  if constexpr (Config::alibi) alibi.first_slope = alibi.slope_of_head(query_head<Config>(params, at, 0));
  return alibi;
}

}  // namespace fa2
