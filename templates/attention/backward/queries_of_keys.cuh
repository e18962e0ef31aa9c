// The mask from the side of the keys: the queries that see each key.
#pragma once

#include "attention/common/key_blocks.cuh"

namespace fa2 {

/// Row j is a key, and exactly the queries [visible_begin(j), visible_end(j)) see it. Neither bound decreases
/// as j grows.
///
/// If key tiles accumulate dQ, a tile may have rows after the last key. No query sees them, because their
/// probability would be 2^-LSE, which may be inf.
template <class Config>
struct QueriesOfKeys {
  Mask<Config> mask;

  static constexpr bool hides_missing_keys = Config::sums_dq;
  static constexpr bool has_begin =
      Config::mask != MaskKind::none || Config::window_right || Config::attention_chunk || hides_missing_keys;
  /// True if some queries after a key may have to be hidden. With sums_dq, padding rows of the last query
  /// tile have P = 0 anyway.
  static constexpr bool has_end = Config::window_left || Config::attention_chunk || !hides_missing_keys;
  static constexpr int kBeyond = 1 << 30;

  FA2_DEVICE int rows() const { return hides_missing_keys ? kBeyond : mask.shape.seqlen_k; }

  FA2_DEVICE int visible_begin(int key) const {
    if (hides_missing_keys && key >= mask.shape.seqlen_k) return kBeyond;
    // Under a causal mask the first query is the diagonal's, which lies in the key's chunk.
    if constexpr (!Config::attention_chunk || Config::mask != MaskKind::none) return begin_of_window(key);
    const int window = begin_of_window(key), chunk = queries_before(mask.chunks.begin_of(key));
    return window > chunk ? window : chunk;
  }

  FA2_DEVICE int visible_end(int key) const {
    if constexpr (!Config::attention_chunk) return end_of_window(key);
    const int window = end_of_window(key), chunk = end_of_chunk(key);
    return window < chunk ? window : chunk;
  }

 private:
  /// Returns the number of queries whose diagonals lie before `position`: the query whose diagonal meets it, if there is one.
  FA2_DEVICE int queries_before(int position) const {
    if constexpr (Config::query_pieces) return mask.shape.positions.before(position);
    return position - mask.diagonal_of(0);
  }

  /// Returns the first query that sees `key` by its mask and window.
  FA2_DEVICE int begin_of_window(int key) const {
    if constexpr (Config::mask == MaskKind::none && !Config::window_right) return 0;
    const int right = Config::window_right ? mask.window_right : 0;
    const int begin = Config::query_pieces ? queries_before(key - right) : queries_before(key) - right;
    return begin > 0 ? begin : 0;
  }
  /// Returns the query after the last that sees `key` by its window.
  FA2_DEVICE int end_of_window(int key) const {
    const int queries = mask.shape.seqlen_q;
    if constexpr (!Config::window_left) return queries;
    if constexpr (Config::query_pieces) {
      const bool has_end = key < kEndOfPositions - mask.window_left;  // their sum may overflow int
      return existing(queries_before(has_end ? key + mask.window_left + 1 : kEndOfPositions));
    }
    const int unseen =
        queries - 1 - queries_before(key) - mask.window_left;  // queries + mask.window_left may overflow int
    if (unseen <= 0) return queries;
    return unseen < queries ? queries - unseen : 0;
  }
  /// Returns the query after the last in the chunk of `key`.
  FA2_DEVICE int end_of_chunk(int key) const {
    if constexpr (Config::query_pieces)
      return existing(queries_before(mask.chunks.end_of(key, kEndOfPositions)));
    const int first = mask.diagonal_of(0), end = mask.chunks.end_of(key, first + mask.shape.seqlen_q) - first;
    return end > 0 ? end : 0;
  }
  /// Returns the nearest number of queries that exists.
  FA2_DEVICE int existing(int queries) const {
    return queries < 0 ? 0 : queries < mask.shape.seqlen_q ? queries : mask.shape.seqlen_q;
  }
};

/// The query blocks that see some key of a tile.
template <class Config>
using QueryBlocks = KeyBlocks<Config, QueriesOfKeys<Config>>;

}  // namespace fa2
