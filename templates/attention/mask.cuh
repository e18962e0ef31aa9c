// Which keys a query sees.
#pragma once

#include "attention/params.cuh"
#include "tile/register_tile.cuh"

namespace fa2 {

enum class MaskKind { none, causal_bottom_right, causal_top_left };

/// Row r is query r / packed_heads of head r % packed_heads of those packed. It sees exactly the keys
/// [0, visible_end(r)); visible_end never decreases with the row.
template <class Config>
struct Mask {
  int seqlen_q;
  int seqlen_k;
  int rows;  ///< of all packed heads together

  FA2_DEVICE int visible_end(int row) const {
    if constexpr (Config::mask == MaskKind::none) return seqlen_k;
    const int query = static_cast<int>(static_cast<u32>(row) / Config::packed_heads);
    const int diagonal = Config::mask == MaskKind::causal_bottom_right ? query - seqlen_q + seqlen_k : query;
    const int end = diagonal + 1 < seqlen_k ? diagonal + 1 : seqlen_k;
    return end > 0 ? end : 0;
  }

  /// Sets the scores of unseen keys to -inf. scores[0][0] is the score of row `first_row` and key
  /// `first_key`.
  template <int kM, int kN>
  FA2_DEVICE void apply(AccumulatorTile<kM, kN>& scores, int first_row, int first_key) const {
    FA2_UNROLL
    for (int m = 0; m < kM; ++m) {
      FA2_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int end =
            visible_end(first_row + 16 * m + 8 * half + fragment_row()) - first_key - fragment_col();
        FA2_UNROLL
        for (int n = 0; n < kN; ++n) {
          FA2_UNROLL
          for (int i = 0; i < 2; ++i) {
            if (8 * n + i >= end) scores.value[m][n][2 * half + i] = -ptx::infinity();
          }
        }
      }
    }
  }
};

}  // namespace fa2
