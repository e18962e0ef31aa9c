// The two sides of attention that tiles can cover: queries or keys.
#pragma once

#include "attention/common/sequence.cuh"

namespace fa2 {

/// Tiles of queries and query heads. Each sequence begins with its last tile, which sees most keys under a
/// causal mask.
struct QuerySide {
  const AttentionParams& params;

  FA2_DEVICE const AttentionParams& attention() const { return params; }
  FA2_DEVICE int tiles() const { return params.q_tiles; }  ///< tiles per head of the longest sequence
  FA2_DEVICE int heads() const { return params.heads_q; }
  FA2_DEVICE int head_count() const { return params.head_count; }  ///< heads in the whole batch
  FA2_DEVICE const HeadSections& sections() const { return params.sections; }
  FA2_DEVICE int longest_other() const { return params.seqlen_k; }

  FA2_DEVICE static int rows(const SequenceShape& shape) { return shape.rows; }
  FA2_DEVICE static int length_of_other(const SequenceShape& shape) { return shape.seqlen_k; }
  /// Maps `tile` from tile_in_sections(), which counts down, to this side's order in a sequence with `tiles`
  /// tiles.
  FA2_DEVICE static int in_order(int tile, int /*tiles*/) { return tile; }
};

/// Tiles of keys and key/value heads. Each sequence begins with its first tile, which most queries see.
struct KeySide {
  const BackwardParams& params;

  FA2_DEVICE const AttentionParams& attention() const { return params.attention; }
  FA2_DEVICE int tiles() const { return params.k_tiles; }
  FA2_DEVICE int heads() const { return params.heads_kv; }
  FA2_DEVICE int head_count() const { return params.kv_head_count; }
  FA2_DEVICE const HeadSections& sections() const { return params.sections; }
  FA2_DEVICE int longest_other() const { return params.attention.seqlen_q; }

  FA2_DEVICE static int rows(const SequenceShape& shape) { return shape.seqlen_k; }
  FA2_DEVICE static int length_of_other(const SequenceShape& shape) { return shape.seqlen_q; }
  FA2_DEVICE static int in_order(int tile, int tiles) { return tiles - 1 - tile; }
};

}  // namespace fa2
