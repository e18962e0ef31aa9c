// The kernel's one parameter. Host code includes this file too: plain built-in types only.
#pragma once

#include "tensor_map.cuh"

namespace fa2 {

/// Distances in elements between neighbouring batches, heads and rows; the last dimension is contiguous.
struct TensorRef {
  long long batch_stride;
  long long head_stride;
  long long row_stride;
};

struct AttentionParams {
  const void* q;
  const void* k;
  const void* v;
  void* o;
  float* lse;  ///< contiguous (batch, heads_q, seqlen_q), or null
  TensorRef q_strides;
  TensorRef k_strides;
  TensorRef v_strides;
  TensorRef o_strides;
  int seqlen_q;
  int q_rows;  ///< seqlen_q * packed_heads
  int seqlen_k;
  // Heads that are packed into tiles count as one.
  int heads_q;
  int queries_per_kv;     ///< query heads that share one key/value head
  int q_tiles;            ///< ceil(q_rows / tile_m)
  int head_count;         ///< batch * heads_q
  int heads_per_section;  ///< heads whose tiles are interleaved (see scheduler.cuh)
  float scale;            ///< signed
  float scale_log2;       ///< |scale| * log2(e), never below the smallest normal number
  float empty_row_lse;    ///< written for rows that see no key
};

/// For the sm_90 kernel: Q, K, V and O as TMA sees them, one box a warpgroup's queries or a block's keys.
struct AttentionParamsSm90 {
  TensorMap q;
  TensorMap k;
  TensorMap v;
  TensorMap o;
  AttentionParams attention;
  unsigned tile_count;   ///< q_tiles * head_count
  unsigned block_count;  ///< of the grid
  unsigned* next_tile;   ///< 0 between launches; only for the dynamic scheduler
};

}  // namespace fa2
