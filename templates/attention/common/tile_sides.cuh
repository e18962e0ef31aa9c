// The two sides of attention: what tiles are made of.
#pragma once

#include "attention/common/sequence.cuh"

namespace fa2 {

/// Queries, of query heads. A sequence's last tile comes first: under a causal mask it sees most keys.
struct QuerySide {
  const AttentionParams& params;

  FA2_DEVICE const AttentionParams& attention() const { return params; }
  FA2_DEVICE int tiles() const { return params.q_tiles; }  ///< of a head, in the longest sequence
  FA2_DEVICE int heads() const { return params.heads_q; }
  FA2_DEVICE int head_count() const { return params.head_count; }  ///< of the whole batch
  FA2_DEVICE int heads_per_section() const { return params.heads_per_section; }
  FA2_DEVICE int longest_other() const { return params.seqlen_k; }

  FA2_DEVICE static int rows(const SequenceShape& shape) { return shape.rows; }
  FA2_DEVICE static int length_of_other(const SequenceShape& shape) { return shape.seqlen_k; }
  /// Of a sequence with `tiles` tiles, the one that comes when tile_in_sections(), which counts down, is at `tile`.
  FA2_DEVICE static int in_order(int tile, int /*tiles*/) { return tile; }
};

/// Keys, of key/value heads. A sequence's first tile comes first: most queries see it.
struct KeySide {
  const BackwardParams& params;

  FA2_DEVICE const AttentionParams& attention() const { return params.attention; }
  FA2_DEVICE int tiles() const { return params.k_tiles; }
  FA2_DEVICE int heads() const { return params.heads_kv; }
  FA2_DEVICE int head_count() const { return params.kv_head_count; }
  FA2_DEVICE int heads_per_section() const { return params.kv_heads_per_section; }
  FA2_DEVICE int longest_other() const { return params.attention.seqlen_q; }

  FA2_DEVICE static int rows(const SequenceShape& shape) { return shape.seqlen_k; }
  FA2_DEVICE static int length_of_other(const SequenceShape& shape) { return shape.seqlen_q; }
  FA2_DEVICE static int in_order(int tile, int tiles) { return tiles - 1 - tile; }
};

}  // namespace fa2
