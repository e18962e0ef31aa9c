// Masks: the range of keys that each query sees.
#pragma once

#include "attention/common/key_pages.cuh"
#include "tile/copy.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

enum class MaskKind { none, causal_bottom_right, causal_top_left };

/// Sets the columns from end_of(row) on to `value`. The tile begins at row `first_row` and column
/// `first_col`.
template <int kM, int kN, class EndOf>
FA2_DEVICE void set_columns_from(AccumulatorTile<kM, kN>& of, int first_row, int first_col, float value,
                                 const EndOf& end_of) {
  for_each_score(of, first_row, [&](int row) {
    const int end = end_of(row) - first_col - fragment_col();
    return [=](float& score, int col) {
      if (col >= end) score = value;
    };
  });
}

/// Sets the columns before begin_of(row) to `value`.
template <int kM, int kN, class BeginOf>
FA2_DEVICE void set_columns_before(AccumulatorTile<kM, kN>& of, int first_row, int first_col, float value,
                                   const BeginOf& begin_of) {
  for_each_score(of, first_row, [&](int row) {
    const int begin = begin_of(row) - first_col - fragment_col();
    return [=](float& score, int col) {
      if (col < begin) score = value;
    };
  });
}

/// Row `row` sees exactly the keys [visible_begin(row), visible_end(row)) without those of missing pages. Neither bound
/// decreases as `row` grows.
template <class Config>
struct Mask {
  SequenceShape shape;
  RowMap<Config> row_map;
  int window_left;   ///< keys that a query sees before its diagonal; used if Config::window_left
  int window_right;  ///< keys that a query sees after its diagonal; used if Config::window_right, which
                     ///< excludes a causal mask
  KeyChunks chunks;  ///< used if Config::attention_chunk
  MissingKeys<Config> missing;

  /// True if visible_begin() may exceed 0.
  static constexpr bool has_begin = Config::window_left || Config::attention_chunk;
  /// True if some row may not see all keys of the last block.
  static constexpr bool has_end = true;

  FA2_DEVICE int rows() const { return shape.rows; }

  FA2_DEVICE int visible_begin(int row) const {
    if constexpr (!Config::attention_chunk) return begin_of_window(row);
    const int window = begin_of_window(row), chunk = chunks.begin_of(diagonal_of(row));
    return window > chunk ? window : chunk;
  }

  FA2_DEVICE int visible_end(int row) const {
    // A causal mask ends at the diagonal, which lies in the query's chunk.
    if constexpr (!Config::attention_chunk || Config::mask != MaskKind::none) return end_of_window(row);
    const int window = end_of_window(row), chunk = chunks.end_of(diagonal_of(row), shape.seqlen_k);
    return window < chunk ? window : chunk;
  }

  /// Returns the keys that some query of the sequence sees, counted from `first_key`.
  FA2_DEVICE RowsWithin seen_rows(int first_key) const {
    return {visible_begin(0) - first_key, visible_end(shape.rows - 1) - first_key};
  }

  /// Sets the scores of keys from visible_end() on, and of missing ones, to -inf. The tile begins at row `first_row` and key
  /// `first_key`.
  template <int kM, int kN>
  FA2_DEVICE void hide_last(AccumulatorTile<kM, kN>& scores, int first_row, int first_key) const {
    set_columns_from(scores, first_row, first_key, -ptx::infinity(),
                     [&](int row) { return visible_end(row); });
    missing.hide(scores, first_key);
  }

  /// Sets the scores of keys before visible_begin() to -inf.
  template <int kM, int kN>
  FA2_DEVICE void hide_first(AccumulatorTile<kM, kN>& scores, int first_row, int first_key) const {
    set_columns_before(scores, first_row, first_key, -ptx::infinity(),
                       [&](int row) { return visible_begin(row); });
  }

  /// Returns the row's position among keys: the last one that a causal mask lets it see.
  FA2_DEVICE int diagonal_of(int row) const {
    const int query = row_map.query(row);
    if constexpr (Config::query_pieces) return shape.positions.of(query);
    return Config::mask == MaskKind::causal_top_left ? query : query - shape.seqlen_q + shape.seqlen_k;
  }

 private:
  /// Returns the first key that a row sees by its window.
  FA2_DEVICE int begin_of_window(int row) const {
    if constexpr (!Config::window_left) return 0;
    const int begin = diagonal_of(row) - window_left;
    return begin > 0 ? begin : 0;
  }
  /// Returns the key after the last that a row sees by its mask and window.
  FA2_DEVICE int end_of_window(int row) const {
    if constexpr (Config::mask == MaskKind::none && !Config::window_right) return shape.seqlen_k;
    const int diagonal = diagonal_of(row);
    if constexpr (Config::window_right) {
      const int unseen = shape.seqlen_k - 1 - diagonal - window_right;  // diagonal + window_right + 1 may
                                                                        // overflow int
      if (unseen <= 0) return shape.seqlen_k;
      return unseen < shape.seqlen_k ? shape.seqlen_k - unseen : 0;
    }
    const int end = diagonal + 1 < shape.seqlen_k ? diagonal + 1 : shape.seqlen_k;
    return end > 0 ? end : 0;
  }
};

template <class Config>
FA2_DEVICE Mask<Config> mask_of(const AttentionParams& params, const SequenceShape& shape) {
  return {shape,         row_map_of<Config>(params),         params.window_left, params.window_right,
          params.chunks, missing_keys<Config>(params, shape)};
}

}  // namespace fa2
