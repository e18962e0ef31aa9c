// Which queries see a key: the mask from the keys' side.
#pragma once

#include "attention/common/key_blocks.cuh"

namespace fa2 {

/// Row j, a key, is seen by exactly the queries [visible_begin(j), visible_end(j)). Neither decreases with the row.
///
/// Where dQ is summed over keys, the rows of a tile beyond the last key are keys that nobody sees: their probability is
/// 2^-LSE, which may be inf.
template <class Config>
struct QueriesOfKeys {
  Mask<Config> mask;

  static constexpr bool hides_missing_keys = Config::sums_dq;
  static constexpr bool has_begin =
      Config::mask != MaskKind::none || Config::window_right || hides_missing_keys;
  /// Rows that fill up the last tile of queries have P = 0.
  static constexpr bool has_end = Config::window_left || !hides_missing_keys;
  static constexpr int kBeyond = 1 << 30;

  FA2_DEVICE int rows() const { return hides_missing_keys ? kBeyond : mask.shape.seqlen_k; }

  FA2_DEVICE int visible_begin(int key) const {
    if (hides_missing_keys && key >= mask.shape.seqlen_k) return kBeyond;
    if constexpr (Config::mask == MaskKind::none && !Config::window_right) return 0;
    const int begin = diagonal_query(key) - (Config::window_right ? mask.window_right : 0);
    return begin > 0 ? begin : 0;
  }

  FA2_DEVICE int visible_end(int key) const {
    const int queries = mask.shape.seqlen_q;
    if constexpr (!Config::window_left) return queries;
    const int unseen =
        queries - 1 - diagonal_query(key) - mask.window_left;  // their sum could be beyond any int
    if (unseen <= 0) return queries;
    return unseen < queries ? queries - unseen : 0;
  }

 private:
  /// The one whose diagonal the key is.
  FA2_DEVICE int diagonal_query(int key) const { return key - mask.diagonal_of(0); }
};

/// Blocks of queries that some of a tile's keys are seen by.
template <class Config>
using QueryBlocks = KeyBlocks<Config, QueriesOfKeys<Config>>;

}  // namespace fa2
