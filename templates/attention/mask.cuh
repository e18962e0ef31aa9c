// Which keys a query sees.
#pragma once

#include "attention/sequence.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

enum class MaskKind { none, causal_bottom_right, causal_top_left };

/// A row sees exactly the keys [visible_begin(row), visible_end(row)). Neither decreases with the row.
template <class Config>
struct Mask {
  SequenceShape shape;

  /// Whether visible_begin is ever above 0.
  static constexpr bool has_begin = false;

  FA2_DEVICE int visible_begin(int /*row*/) const { return 0; }

  FA2_DEVICE int visible_end(int row) const {
    if constexpr (Config::mask == MaskKind::none) return shape.seqlen_k;
    const int query = RowMap<Config>::query(row);
    const int diagonal =
        Config::mask == MaskKind::causal_bottom_right ? query - shape.seqlen_q + shape.seqlen_k : query;
    const int end = diagonal + 1 < shape.seqlen_k ? diagonal + 1 : shape.seqlen_k;
    return end > 0 ? end : 0;
  }

  /// Sets the scores of unseen keys to -inf. scores[0][0] is the score of row `first_row` and key
  /// `first_key`.
  template <int kM, int kN>
  FA2_DEVICE void apply(AccumulatorTile<kM, kN>& scores, int first_row, int first_key) const {
    for_each_score(scores, first_row, [&](int row) {
      const int end = visible_end(row) - first_key - fragment_col();
      return [end](float& score, int col) {
        if (col >= end) score = -ptx::infinity();
      };
    });
  }
};

}  // namespace fa2
