// Parameters of the attention kernels. Host code includes this file too, so it uses plain built-in types
// only.
#pragma once

#include "attention/common/divisor.cuh"
#include "attention/common/key_chunks.cuh"
#include "attention/common/score_captures.cuh"
#include "machine/tensor_map.cuh"

namespace fa2 {

/// Distances between neighbouring batches, heads and rows; elements, or pairs of 8-bit elements. The last dimension is
/// contiguous.
struct Strides {
  long long batch_stride;
  long long head_stride;
  long long row_stride;
};

/// tanh(x) = x (1 + x^2 (kCubic + kQuintic x^2)) for |x| <= kEnd, with a relative error of at most 4.9e-7.
/// The coefficients are a least-squares fit, weighted to minimise its largest error.
struct TanhSeries {
  static constexpr double kCubic = -0.333245713, kQuintic = 0.128764193, kEnd = 0.25;
};

/// Softcap of scores s before the scale: c tanh(s * scale / c) / scale, for a cap c of scaled scores. For |s|
/// <= series_end it equals factor * s * (t^2 + constant) with the negative term t = s^2 + shift.
struct SoftcapParams {
  float series_end;  ///< largest |s| of the series; negative if the series does not apply
  float last_term;   ///< t at series_end; -inf if the series does not apply
  float shift;
  float constant;
  float factor;
  float factor_log2;  ///< factor * scale * log2(e)
  float exponent;     ///< 2 |scale| / c * log2(e)
  float limit;        ///< largest result: c / |scale|
  bool is_large;      ///< whether c is so large that the rounding error of tanh shows in small scores
};

/// A probability is dropped if its 32-bit random number is below `threshold`.
struct DropoutParams {
  const int* state;  ///< 64-bit seed, then 64-bit offset, in device memory; null: `stream` already holds
                     ///< their hash
  unsigned threshold;
  float rescale;  ///< 1 / (fraction that is kept)
  unsigned stream[2];
};

/// The device's tables of sequence lengths, as in AttentionArgs.
struct SequenceTables {
  const int* cu_seqlens_q;  ///< (batch + 1); null: each batch entry is a sequence
  const int* cu_seqlens_k;
  const int* seqused_q;  ///< (batch), or null
  const int* seqused_k;
  const int* page_table;  ///< (batch, pages of the longest sequence); null: K and V are not paged
  long long page_table_stride;
  int total_q;  ///< rows of Q per head and batch entry; if sequences are packed, all rows of Q
  int total_k;
  int batch;
  int page_count;
};

/// The variants' tensors of one float32 per head, named as in AttentionArgs. One word makes the field and fills it in.
#define FA2_HEAD_NUMBERS(number)                                        \
  number(alibi_slopes) /* or (batch, heads_q), by alibi_batch_stride */ \
      number(sinks)

/// How the rows of tiles number the queries of several heads that share one key/value head (packed GQA). Rows
/// come in blocks. A block holds whole queries: all heads of its first, then all heads of the next. The rows
/// that are left stay empty, so that a TMA box carries whole queries.
struct HeadPacking {
  int heads;               ///< 1: each head has tiles of its own; up to 128
  int inverse;             ///< ceil(2^16 / heads)
  int queries;             ///< queries in a block
  unsigned query_inverse;  ///< ceil(2^31 / queries)
  int block_log2;          ///< a block has 2^block_log2 rows: 64, or 128 for more heads than that
  int box_heads;           ///< heads in a box, which carries 64 rows or fewer
};

/// Returns the rows from a sequence's first query to its last. Of at most 2^23 queries, unless heads = 1.
template <class Count>
constexpr Count packed_rows(const HeadPacking& packing, Count queries) {
  if (queries == 0 || packing.heads == 1) return queries;
  const unsigned long long last = static_cast<unsigned long long>(queries - 1);
  const Count block = static_cast<Count>(last * packing.query_inverse >> 31);
  return (block << packing.block_log2) + (queries - block * packing.queries) * packing.heads;
}

/// A float32 per batch entry and key/value head, or null for 1.
struct HeadFactors {
  const float* data;
  long long batch_stride;
  long long head_stride;
};

struct AttentionParams : ScoreCaptures {
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
  int q_rows;  ///< packed_rows() of the longest sequence
  int seqlen_k;
  // Heads that share tiles count as one.
  int heads_q;
  int queries_per_kv;     ///< query heads that share one key/value head
  int q_tiles;            ///< ceil(q_rows / tile_m)
  int head_count;         ///< batch * heads_q
  HeadSections sections;  ///< of query heads
  HeadPacking packing;    ///< forward only
  float scale;            ///< signed
  float scale_log2;       ///< |scale| * log2(e); at least the smallest normal number
  float empty_row_lse;    ///< LSE of rows that see no key
  // The rest belongs to variants. Only kernels of the variant read it.
  int window_left;   ///< keys that a query sees before its diagonal
  int window_right;  ///< keys that a query sees after its diagonal
  int first_key;     ///< first key in the tensor maps of K and V; sm90 forward only
  SoftcapParams softcap;
  float signed_scale_log2;       ///< scale * log2(e)
  long long alibi_batch_stride;  ///< 0, or the number of heads
#define FA2_FIELD(name) const float* name;
  FA2_HEAD_NUMBERS(FA2_FIELD)
#undef FA2_FIELD
  SequenceTables sequences;
  DropoutParams dropout;
  HeadFactors k_descale;
  HeadFactors v_descale;
  KeyChunks chunks;  ///< of chunked local attention
};

/// How persistent thread blocks share the tiles of a launch.
struct WorkShares {
  unsigned block_count;  ///< thread blocks in the grid
  int part_rows;         ///< rows of one partial output: a tile's, or fewer if the problem has fewer
  unsigned* counters;    ///< tile counters for the dynamic scheduler, split counters for split KV; 0 between
                         ///< launches
  float* parts;          ///< partial outputs; only for split KV (split_keys.cuh)
};

// `max_logits` of forward kernels: (batch, heads_q); only kernels with max_logits write it. It comes last, so that
// it moves no parameter of others.

/// Parameters of the sm80 forward kernel.
struct AttentionParamsSm80 {
  AttentionParams attention;
  float* max_logits;
};

/// Parameters of the split-KV forward kernel for mma.sync.
struct AttentionParamsSplit {
  AttentionParams attention;
  WorkShares shares;
  float* max_logits;
};

/// Parameters of the sm90 forward kernel. A TMA box of Q and O holds a warpgroup's queries; one of K and V
/// holds a KV block.
struct AttentionParamsSm90 {
  TensorMap q;
  TensorMap k;
  TensorMap v;
  TensorMap o;
  AttentionParams attention;
  WorkShares shares;
  float* max_logits;
};

/// Keys whose dK and dV one block of dq_convert merges, if key tiles have parts.
constexpr int kMergedRows = 16;

/// Words that describe a part of a key tile in memory, before its sums.
constexpr int kPartWords = 8;

/// Parameters of the backward kernels.
struct BackwardParams {
  AttentionParams attention;  ///< the forward's parameters; O and LSE are inputs
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
  float* delta;        ///< (batch, heads_q, statistic_rows): per row, the sum of dO * O, less dLSE
  int statistic_rows;  ///< rows per head in delta; the fused kernel pads each sequence to whole tiles of the
                       ///< dQ accumulator
  int sum_tile;        ///< queries per tile of the dQ accumulator
  /// 0 unless key tiles accumulate dQ. Then three arrays follow delta: as many exponent_offset() values of
  /// LSE, as many semaphores (backward/sm90/turns.cuh), and the dQ accumulator. That one holds float32 query
  /// tiles in register order (backward/sums.cuh).
  long long statistic_count;
  int k_tiles;        ///< ceil(seqlen_k / tile_m), with tile_m of the dK and dV kernel
  int kv_head_count;  ///< batch * heads_kv
  int heads_kv;
  HeadSections sections;  ///< of key/value heads
  // Key tiles that thread blocks share (backward/key_parts.cuh).
  Divisor parts;          ///< thread blocks per key tile
  Divisor part_tiles;     ///< key tiles in a section of parts
  int part_steps;         ///< query blocks of a part, unless that takes more parts
  int part_floats;        ///< distance between the parts of blocks, which lie behind delta
  long long part_start;   ///< of the first
  int part_rows;          ///< keys of a tile
  unsigned merge_blocks;  ///< blocks of dq_convert that merge kMergedRows keys each; 0 without parts
};

/// What a launch of the kernel of captures' gradients makes of them.
enum class CaptureSums : int {
  any_order,    ///< float32 sums
  largest,      ///< the greatest magnitude of what is added to each, with which sums in fixed point begin
  fixed_point,  ///< sums of integers, which have the same bits in any order
  rounded,      ///< float32 of these
};

/// Parameters of the kernel of captures' gradients.
struct CaptureGradientParams {
  BackwardParams backward;
  long long* sums;  ///< in fixed point, one per element: of each gradient that the call wants, in their order
  CaptureSums kind;
  unsigned blocks;  ///< of the launch
};

/// Parameters of the kernel that makes the map of a mask's text.
struct KeyMapKernelParams {
  AttentionParams attention;
};

/// Parameters of the dropout mask kernel.
struct DropoutMaskParams {
  AttentionParams attention;
  unsigned char* mask;  ///< (batch, heads_q, seqlen_q, seqlen_k)
};

/// Parameters of the sm90 backward kernels. A TMA box holds the queries of one iteration, or a warpgroup's
/// keys.
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
