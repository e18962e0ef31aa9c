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
    constexpr bool is_causal = Config::mask != MaskKind::none;
    if constexpr (!is_causal && !Config::window_right && !Config::attention_chunk) return 0;
    // Under a causal mask the first query is the diagonal's, which lies in the key's chunk.
    const int first = Config::attention_chunk && !is_causal ? first_of_chunk(key) : 0;
    if constexpr (!is_causal && !Config::window_right) return first;
    return larger(diagonal_query(key) - (Config::window_right ? mask.window_right : 0), first);
  }

  FA2_DEVICE int visible_end(int key) const {
    const int queries = mask.shape.seqlen_q;
    if constexpr (!Config::window_left && !Config::attention_chunk) return queries;
    const int last = Config::attention_chunk ? end_of_chunk(key) : queries;
    if constexpr (!Config::window_left) return last;
    const int unseen =
        last - 1 - diagonal_query(key) - mask.window_left;  // last + mask.window_left may overflow int
    if (unseen <= 0) return last;
    return unseen < last ? last - unseen : 0;
  }

 private:
  /// Returns the query whose diagonal meets `key`.
  FA2_DEVICE int diagonal_query(int key) const { return key - mask.diagonal_of(0); }

  /// Returns the first query in the chunk of `key`.
  FA2_DEVICE int first_of_chunk(int key) const {
    return larger(diagonal_query(mask.chunks.begin_of(key)), 0);
  }
  /// Returns the first query after the chunk of `key`, at most the number of queries.
  FA2_DEVICE int end_of_chunk(int key) const {
    const int first = mask.diagonal_of(0);
    return larger(mask.chunks.end_of(key, first + mask.shape.seqlen_q) - first, 0);
  }

  FA2_DEVICE static int larger(int a, int b) { return a > b ? a : b; }
};

/// The query blocks that see some key of a tile.
template <class Config>
using QueryBlocks = KeyBlocks<Config, QueriesOfKeys<Config>>;

}  // namespace fa2
