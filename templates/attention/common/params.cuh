// The kernel's one parameter. Host code includes this file too: plain built-in types only.
#pragma once

#include "machine/tensor_map.cuh"

namespace fa2 {

/// Distances in elements between neighbouring batches, heads and rows; the last dimension is contiguous.
struct Strides {
  long long batch_stride;
  long long head_stride;
  long long row_stride;
};

/// tanh(x) = x (1 + x^2 (kCubic + kQuintic x^2)) up to |x| = kEnd: relative error 4.9e-7, a least-squares fit weighted until its
/// largest error is as small as it gets.
struct TanhSeries {
  static constexpr double kCubic = -0.333245713, kQuintic = 0.128764193, kEnd = 0.25;
};

/// A softcap c of scaled scores, for scores s before the scale: c tanh(s * scale / c) / scale. While |s| is not above
/// series_end that is factor * s * (t^2 + constant) with the term t = s^2 + shift, which is negative.
struct SoftcapParams {
  float series_end;  ///< negative: no score is in the series
  float last_term;   ///< that of series_end; -inf: no score is in the series
  float shift;
  float constant;
  float factor;
  float factor_log2;  ///< factor * scale * log2(e)
  float exponent;     ///< 2 |scale| / c * log2(e)
  float limit;        ///< c / |scale|
  bool is_large;      ///< whether c times the rounding error of tanh shows in small scores
};

/// A probability is dropped where its number, of 32 bits, is below the threshold.
struct DropoutParams {
  const int* state;  ///< 64 bits of a seed and 64 of an offset; or null, and the stream is theirs
  unsigned threshold;
  float rescale;  ///< 1 / the share that is kept
  unsigned stream[2];
};

/// What the device reads the lengths of sequences from; see AttentionArgs.
struct SequenceTables {
  const int* cu_seqlens_q;  ///< (batch + 1); null: sequences are the entries of the batch
  const int* cu_seqlens_k;
  const int* seqused_q;  ///< (batch), or null
  const int* seqused_k;
  const int* page_table;  ///< (batch, pages of the longest sequence), or null
  long long page_table_stride;
  int total_q;  ///< rows of a head of Q in one entry of the batch: all of them where sequences are packed
  int total_k;
  int batch;
  int page_count;
};

struct AttentionParams {
  const void* q;
  const void* k;
  const void* v;
  void* o;
  float* lse;  ///< contiguous (batch, heads_q, seqlen_q) or (heads_q, total_q), or null
  Strides q_strides;
  Strides k_strides;
  Strides v_strides;
  Strides o_strides;
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
  // Of variants; read by kernels that have them.
  int window_left;   ///< keys before the diagonal that a query sees
  int window_right;  ///< keys after it
  int first_key;     ///< main loop 90: of the tensor maps of K and V
  SoftcapParams softcap;
  float signed_scale_log2;       ///< scale * log2(e)
  const float* alibi_slopes;     ///< (heads_q) or (batch, heads_q)
  long long alibi_batch_stride;  ///< 0 or the number of heads
  const float* sinks;            ///< (heads_q)
  SequenceTables sequences;
  DropoutParams dropout;
};

/// How the blocks of a launch that stay for several tiles share them out.
struct WorkShares {
  unsigned block_count;  ///< of the grid
  int part_rows;         ///< that there is room for in a part: a tile's, or all there are
  unsigned* counters;  ///< 0 between launches: of tiles, for the dynamic scheduler; of parts, for split keys
  float* parts;        ///< of tiles; only for split keys (split_keys.cuh)
};

/// For the kernel of few queries.
struct AttentionParamsSm81 {
  AttentionParams attention;
  WorkShares shares;
};

/// For the sm_90 kernel: Q, K, V and O as TMA sees them, one box a warpgroup's queries or a block's keys.
struct AttentionParamsSm90 {
  TensorMap q;
  TensorMap k;
  TensorMap v;
  TensorMap o;
  AttentionParams attention;
  WorkShares shares;
};

/// For the kernels of the backward.
struct BackwardParams {
  AttentionParams attention;  ///< of the forward; its O and LSE are inputs
  const void* d_o;
  const float* d_lse;  ///< shaped like LSE, or null
  void* dq;
  void* dk;
  void* dv;
  float* d_sinks;  ///< (heads_q)
  Strides d_o_strides;
  Strides dq_strides;
  Strides dk_strides;
  Strides dv_strides;
  float* delta;  ///< (batch, heads_q, statistic_rows): the sum of dO * O over a row, less dLSE
  int statistic_rows;  ///< that a head has: its queries, and where dQ is summed what fills up a sequence's last tile
  int sum_tile;  ///< queries of a tile of the sums
  /// 0, or dQ is summed over tiles of keys, and after delta come, as many each, exponent_offset() of LSE and turns
  /// (backward_turns_sm90.cuh), and the sums: float32 tiles of queries, as they lie in registers (backward_sums.cuh).
  long long statistic_count;
  int k_tiles;        ///< ceil(seqlen_k / tile_m) of the kernel whose rows are keys
  int kv_head_count;  ///< batch * heads_kv
  int heads_kv;
  int kv_heads_per_section;
};

/// For the kernel that writes dropout's mask.
struct DropoutMaskParams {
  AttentionParams attention;
  unsigned char* mask;  ///< (batch, heads_q, seqlen_q, seqlen_k)
};

/// For the sm_90 kernels of the backward: tensors as TMA sees them, one box a step's queries or a warpgroup's keys.
struct BackwardParamsSm90 {
  TensorMap q;
  TensorMap d_o;
  TensorMap k;
  TensorMap v;
  TensorMap dk;
  TensorMap dv;
  BackwardParams backward;
};

}  // namespace fa2
