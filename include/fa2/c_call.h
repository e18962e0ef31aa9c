/* Problems and arguments of calls in fa2's C interface, and the tensors of each operation. Written from the rows of
 * the C++ structs by fa2_write_files: do not edit. The C++ headers say more of each field. */
#ifndef FA2_C_CALL_H
#define FA2_C_CALL_H

#include <stddef.h>
#include <stdint.h>

/* clang-format off */

/* A (batch, head, row, head_dim) tensor: a pointer to memory that the device can use, and the distances in elements
 * between neighbouring batches, heads and rows, in this order; head_dim is contiguous. */
typedef struct fa2_tensor {
  void* data;
  int64_t strides[3];
} fa2_tensor;
#define FA2_TENSOR_INIT {0, {0, 0, 0}}

/* What texts of scores read in a call (fa2/c_score_text.h): a tensor, or a number. */
typedef struct fa2_capture {
  const void* data; /* of a tensor: the first element; NULL for a number */
  double number; /* of a number: the value */
  int64_t sizes[4]; /* of each dimension: 1 .. 2^31 - 1; 0 where there is no dimension */
  int64_t strides[4]; /* elements, of either sign, even 0 */
} fa2_capture;

/* Which blocks the mask of score_text shows: see fa2/c_block_map.h. */
typedef struct fa2_block_map fa2_block_map;

/* Element types. A fa2_problem has one of the first two; fa2_array.dtype is any. FA2_OTHER_DTYPE: one that fa2 does
 * not know. */
enum {
  FA2_OTHER_DTYPE = -1,
  FA2_F16 = 0,
  FA2_BF16 = 1,
  FA2_FLOAT32 = 2,
  FA2_INT32 = 3,
  FA2_INT64 = 4,
  FA2_UINT8 = 5,
  FA2_FLOAT8_E4M3FN = 6
};

/* fa2::AttentionProblem */
typedef struct fa2_problem {
  uint32_t struct_size; /* sizeof(fa2_problem) */
  int32_t dtype; /* element type of Q and O, and of K and V unless kv_type says another; 0: f16, 1: bf16 */
  int32_t head_dim; /* head dimension of Q and K, a multiple of 8 in 8..576 */
  int32_t head_dim_v; /* head dimension of V and O, a multiple of 8 in 8..512; 0: head_dim */
  int32_t mask; /* which keys a query sees; 0: none, 1: causal_bottom_right, 2: causal_top_left */
  int32_t has_window_left; /* 0: no window_left */
  int32_t has_window_right; /* 0: no window_right */
  int32_t has_attention_chunk; /* 0: no attention_chunk */
  int32_t softcap; /* scores become cap * tanh(score / cap); 0 or 1 */
  int32_t alibi; /* ALiBi: scores fall with the distance of the key, by a slope per head; 0 or 1 */
  int32_t sinks; /* attention sinks: a logit per head joins the softmax; 0 or 1 */
  int32_t dropout; /* probabilities are dropped at random; 0 or 1 */
  int32_t query_pieces; /* queries are two pieces of a longer sequence; 0 or 1 */
  int32_t varlen; /* sequences have lengths of their own, which only the device knows; 0 or 1 */
  int32_t page_size; /* rows per page of K and V; 0: they are not paged */
  /* entries of the page table that name no page hide their keys, as -1 in lists of single keys; 0 or 1 */
  int32_t missing_pages;
  /* element type of K and V: that of Q, 8 bits, or the rows of DeepSeek-V3.2; 0: same, 1: e4m3, 2: scaled,
   * 3: ds_mla */
  int32_t kv_type;
  int32_t values_in_keys; /* V is the first columns of K, as in latent attention (MLA); 0 or 1 */
  int32_t batch_invariant; /* the bits of a sequence do not depend on the batch; 0 or 1 */
  int32_t lse_base; /* the base of the logarithm in LSE; 0: natural, 1: two */
  int32_t max_logits; /* the largest logit of each head is written; 0 or 1 */
  int32_t float32_dk_dv; /* dK and dV are float32: parts of a sum; 0 or 1 */
  int32_t float32_dq; /* dQ is float32: a part of a sum; 0 or 1 */
  int32_t float32_out; /* O is float32: a part of a merge; 0 or 1 */
  int32_t sm_margin; /* SMs that persistent kernels leave to other kernels */
  int32_t reserved; /* 0 */
  int64_t window_left; /* sliding window: how many keys before its own a query sees */
  int64_t window_right; /* how many keys after its own a query sees */
  int64_t attention_chunk; /* chunked local attention: a query sees only keys of its own chunk of so many */
  int64_t score_text; /* number of make_score_text(): functions of scores; 0: none */
  int64_t batch; /* sequences */
  int64_t heads_q; /* query heads */
  int64_t heads_kv; /* key and value heads, dividing heads_q; 0: heads_q */
  int64_t seqlen_q; /* queries; with varlen of the longest sequence */
  int64_t seqlen_k; /* keys; with varlen of the longest sequence */
  int64_t total_q; /* queries of all sequences, packed; 0: batched */
  int64_t total_k; /* keys of all sequences, packed; 0: batched */
  int64_t page_count; /* pages that K and V have */
} fa2_problem;
#define FA2_PROBLEM_INIT {sizeof(fa2_problem), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0}

/* fa2::AttentionArgs */
typedef struct fa2_args {
  uint32_t struct_size; /* sizeof(fa2_args) */
  float softcap; /* scores become softcap * tanh(score / softcap); scaled scores; finite and above 0 */
  int32_t alibi_slopes_per_batch; /* alibi_slopes are (batch, heads_q); 0 or 1 */
  int32_t has_softmax_scale; /* 0: no softmax_scale */
  float softmax_scale; /* any finite value; absent: 1 / sqrt(head_dim) */
  float dropout_probability; /* share of probabilities that are dropped; at least 0 and below 1 */
  /* the LSE of a query that sees no key; its O is 0; 0: positive_infinity, 1: negative_infinity */
  int32_t empty_row_lse;
  int32_t reserved; /* 0 */
  /* queries; (total_q, heads_q, head_dim) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim) */
  fa2_tensor q;
  /* keys; (total_k, heads_kv, head_dim) if cu_seqlens_k | (page_count, page_size, heads_kv, head_dim) if
   * page_table | (batch, seqlen_k, heads_kv, head_dim); or float8_e4m3fn */
  fa2_tensor k;
  /* values; (total_k, heads_kv, head_dim_v) if cu_seqlens_k | (page_count, page_size, heads_kv,
   * head_dim_v) if page_table | (batch, seqlen_k, heads_kv, head_dim_v); or float8_e4m3fn */
  fa2_tensor v;
  /* the output; (total_q, heads_q, head_dim_v) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim_v);
   * or float32 */
  fa2_tensor out;
  /* log-sum-exp of each row, to the base lse_base; (heads_q, total_q) if cu_seqlens_q | (batch, heads_q,
   * seqlen_q); float32; optional */
  float* lse;
  /* largest score of each head that enters the softmax; -infinity without a visible key; (batch, heads_q);
   * float32; given with max_logits */
  float* max_logits;
  /* slope * distance is subtracted from scores; (heads_q) | (batch, heads_q); float32; given with alibi */
  const float* alibi_slopes;
  /* a logit per head that joins each row's softmax without a value; -infinity: none; (heads_q); float32;
   * given with sinks */
  const float* sinks;
  const fa2_capture* captures; /* what texts of scores read; one for each capture of score_text */
  int64_t capture_count; /* captures */
  /* which blocks the mask of score_text shows, as fa2_map_blocks() has found; optional */
  const fa2_block_map* block_map;
  uint64_t block_map_version; /* the version of block_map */
  /* seed and offset on the device, in place of the two numbers, which are 0 then; (2); int64; optional
   * with dropout */
  const uint64_t* dropout_state;
  /* with varlen: split, first and second of each sequence, in place of the numbers; (batch, 3); int32;
   * optional with query_pieces */
  const int32_t* query_pieces_table;
  /* where each sequence's rows of Q and O begin, and where the last one's end; (batch + 1); int32; given
   * with total_q */
  const int32_t* cu_seqlens_q;
  /* where each sequence's rows of K and V begin, and where the last one's end; (batch + 1); int32; given
   * with total_k */
  const int32_t* cu_seqlens_k;
  /* how many rows of Q count of each sequence; (batch); int32; optional with varlen */
  const int32_t* seqused_q;
  /* how many rows of K and V count of each sequence; (batch); int32; optional with varlen */
  const int32_t* seqused_k;
  const int32_t* page_table; /* the pages of each sequence; (batch, max_pages); int32; given with page_size */
  int64_t page_table_stride; /* elements from one sequence's pages to the next one's */
  /* factors of 8-bit keys; absent: 1; (batch, heads_kv); float32; optional with kv_type */
  fa2_tensor k_descale;
  /* factors of 8-bit values; absent: 1; (batch, heads_kv); float32; optional with kv_type */
  fa2_tensor v_descale;
  void* workspace; /* memory for launches: see fa2_plan_workspace_bytes(); optional */
  uint64_t dropout_seed; /* seed of the mask */
  uint64_t dropout_offset; /* another mask for every value, such as the number of the call */
  int64_t query_pieces_split; /* queries of the first piece */
  int64_t query_pieces_first; /* query i of the first piece has the position i + first */
  int64_t query_pieces_second; /* query i of the second piece has the position i + second */
} fa2_args;
#define FA2_ARGS_INIT {sizeof(fa2_args), 0, 0, 0, 0, 0, 0, 0, FA2_TENSOR_INIT, FA2_TENSOR_INIT, FA2_TENSOR_INIT, FA2_TENSOR_INIT, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, FA2_TENSOR_INIT, FA2_TENSOR_INIT, 0, 0, 0, 0, 0, 0}

/* fa2::BackwardArgs */
typedef struct fa2_backward_args {
  uint32_t struct_size; /* sizeof(fa2_backward_args) */
  int32_t determinism; /* how gradients may differ between runs; FA2_FASTEST or FA2_BITWISE */
  const fa2_args* forward; /* the forward's arguments, with out and lse as inputs */
  /* gradient of O; (total_q, heads_q, head_dim_v) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim_v) */
  fa2_tensor d_out;
  /* gradient of LSE; (heads_q, total_q) if cu_seqlens_q | (batch, heads_q, seqlen_q); float32; optional */
  const float* d_lse;
  /* gradient of Q; (total_q, heads_q, head_dim) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim); or
   * float32; optional */
  fa2_tensor dq;
  /* gradient of K; (total_k, heads_kv, head_dim) if cu_seqlens_k | (batch, seqlen_k, heads_kv, head_dim);
   * or float32; optional */
  fa2_tensor dk;
  /* gradient of V; (total_k, heads_kv, head_dim_v) if cu_seqlens_k | (batch, seqlen_k, heads_kv,
   * head_dim_v); or float32; optional */
  fa2_tensor dv;
  /* gradient of sinks, summed over all rows of the batch; (heads_q); float32; optional with sinks */
  float* d_sinks;
  /* gradients of captures: contiguous float32 for each capture of score_text, NULL where none is wanted */
  float* const* d_captures;
  void* workspace; /* memory for launches: see fa2_backward_plan_workspace_bytes(); optional */
} fa2_backward_args;
#define FA2_BACKWARD_ARGS_INIT {sizeof(fa2_backward_args), 0, 0, FA2_TENSOR_INIT, 0, FA2_TENSOR_INIT, FA2_TENSOR_INIT, FA2_TENSOR_INIT, 0, 0, 0}

/* fa2::AppendProblem */
typedef struct fa2_append_problem {
  uint32_t struct_size; /* sizeof(fa2_append_problem) */
  int32_t dtype; /* element type of Q, K and V; 0: f16, 1: bf16 */
  int32_t head_dim; /* head dimension of Q and K, a multiple of 8 in 8..576 */
  int32_t head_dim_v; /* head dimension of V, a multiple of 8 in 8..512; 0: head_dim */
  /* how many columns of Q and K are rotated, from the first on; a multiple of 8; 0: none */
  int32_t rotary_dim;
  int32_t rotary_style; /* which two columns are rotated together; 0: halves, 1: interleaved */
  int32_t float32_tables; /* cos and sin are float32, else of dtype; 0 or 1 */
  /* query i is rotated by the position of new row i, else every query by that of new row 0; 0 or 1 */
  int32_t causal_positions;
  int32_t kv_type; /* element type of the cache: dtype, or 8 bits; 0: same, 1: e4m3, 2: scaled, 3: ds_mla */
  int32_t reserved; /* 0 */
  int64_t table_rows; /* positions that cos and sin have */
  int64_t batch; /* sequences */
  int64_t heads_q; /* query heads; 0: there is no Q */
  int64_t heads_kv; /* key and value heads */
  int64_t seqlen_q; /* queries of each sequence; ignored if Q is packed */
  int64_t seqlen_new; /* new rows of K and V of each sequence; ignored if they are packed */
  int64_t total_q; /* queries of all sequences, packed; 0: batched */
  int64_t total_new; /* new rows of all sequences, packed; 0: batched */
  int64_t page_size; /* rows per page; 0: each sequence has one entry of the cache */
  int64_t cache_entries; /* entries, or pages, of the cache */
  int64_t cache_rows; /* rows per entry; ignored with pages */
  int64_t max_pages; /* columns of the page table; ignored without pages */
} fa2_append_problem;
#define FA2_APPEND_PROBLEM_INIT {sizeof(fa2_append_problem), 0, 128, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 0}

/* fa2::AppendArgs */
typedef struct fa2_append_args {
  uint32_t struct_size; /* sizeof(fa2_append_args) */
  int32_t reserved; /* 0 */
  /* new keys; (total_new, heads_kv, head_dim) if cu_seqlens_new | (batch, seqlen_new, heads_kv, head_dim) */
  fa2_tensor k_new;
  /* new values; (total_new, heads_kv, head_dim_v) if cu_seqlens_new | (batch, seqlen_new, heads_kv,
   * head_dim_v) */
  fa2_tensor v_new;
  /* keys of the cache; (cache_entries, page_size, heads_kv, head_dim) if page_table | (cache_entries,
   * cache_rows, heads_kv, head_dim); or float8_e4m3fn */
  fa2_tensor k_cache;
  /* values of the cache; (cache_entries, page_size, heads_kv, head_dim_v) if page_table | (cache_entries,
   * cache_rows, heads_kv, head_dim_v); or float8_e4m3fn */
  fa2_tensor v_cache;
  /* factors of the cache's 8-bit keys; absent: 1; (batch, heads_kv); float32; optional with kv_type */
  fa2_tensor k_descale;
  /* factors of the cache's 8-bit values; absent: 1; (batch, heads_kv); float32; optional with kv_type */
  fa2_tensor v_descale;
  const int32_t* seqlens; /* rows that each sequence has in the cache before the call; (batch); int32 */
  /* the entry of each sequence; null: entry b for sequence b; (batch); int32; optional */
  const int32_t* cache_batch_idx;
  const int32_t* page_table; /* the pages of each sequence; (batch, max_pages); int32; given with page_size */
  int64_t page_table_stride; /* elements from one sequence's pages to the next one's */
  /* where each sequence's new rows begin, and where the last one's end; (batch + 1); int32; given with
   * total_new */
  const int32_t* cu_seqlens_new;
  /* where each sequence's rows of Q begin, and where the last one's end; (batch + 1); int32; optional with
   * total_q */
  const int32_t* cu_seqlens_q;
  /* cosines of each position's rotary angles; (table_rows, rotary_dim / 2); or float32; given with
   * rotary_dim */
  const void* cos;
  /* sines of each position's rotary angles; (table_rows, rotary_dim / 2); or float32; given with
   * rotary_dim */
  const void* sin;
  int64_t table_stride; /* elements of cos and of sin from one position to the next */
  /* each sequence's position of new row 0; null: seqlens; (batch); int32; optional with rotary_dim */
  const int32_t* rotary_seqlens;
  /* queries to rotate; (total_q, heads_q, head_dim) if cu_seqlens_q | (batch, seqlen_q, heads_q,
   * head_dim); optional with heads_q */
  fa2_tensor q;
  /* rotated queries; may be q, with the same strides; (total_q, heads_q, head_dim) if cu_seqlens_q |
   * (batch, seqlen_q, heads_q, head_dim); given with heads_q */
  fa2_tensor q_out;
} fa2_append_args;
#define FA2_APPEND_ARGS_INIT {sizeof(fa2_append_args), 0, FA2_TENSOR_INIT, FA2_TENSOR_INIT, FA2_TENSOR_INIT, FA2_TENSOR_INIT, FA2_TENSOR_INIT, FA2_TENSOR_INIT, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, FA2_TENSOR_INIT, FA2_TENSOR_INIT}

/* fa2::MergeProblem */
typedef struct fa2_merge_problem {
  uint32_t struct_size; /* sizeof(fa2_merge_problem) */
  int32_t dtype; /* element type of the parts and of O, unless they are float32; 0: f16, 1: bf16 */
  int32_t float32_parts; /* the parts are float32; 0 or 1 */
  int32_t float32_output; /* O is float32; 0 or 1 */
  int32_t lse_base; /* the base of the logarithm in LSE, of the parts and of the result; 0: natural, 1: two */
  int32_t head_dim; /* head dimension of O, a multiple of 8 in 8..512 */
  int64_t parts; /* partial outputs; at least 1 */
  int64_t batch; /* sequences; 1 if they are packed */
  int64_t heads; /* query heads */
  int64_t seqlen; /* queries; of all sequences if they are packed */
} fa2_merge_problem;
#define FA2_MERGE_PROBLEM_INIT {sizeof(fa2_merge_problem), 0, 0, 0, 0, 128, 1, 1, 1, 1}

/* fa2::MergeArgs */
typedef struct fa2_merge_args {
  uint32_t struct_size; /* sizeof(fa2_merge_args) */
  /* the LSE of a row for which no part has a key; its O is 0; 0: positive_infinity, 1: negative_infinity */
  int32_t empty_row_lse;
  /* partial outputs, each normalised; (parts, batch, seqlen, heads, head_dim) | (parts, seqlen, heads,
   * head_dim); or float32 */
  fa2_tensor parts;
  int64_t part_stride; /* elements from one partial output to the next */
  /* log-sum-exp of each part's rows, to the base lse_base; either infinity for a row without a key;
   * (parts, batch, heads, seqlen) if batch | (parts, heads, seqlen); float32 */
  fa2_tensor lse_parts;
  int64_t lse_part_stride; /* elements from one part's log-sum-exp to the next one's */
  /* the merged output; (batch, seqlen, heads, head_dim) if batch | (seqlen, heads, head_dim); or float32 */
  fa2_tensor out;
  /* log-sum-exp of each merged row; (batch, heads, seqlen) if batch | (heads, seqlen); float32; optional */
  float* lse;
} fa2_merge_args;
#define FA2_MERGE_ARGS_INIT {sizeof(fa2_merge_args), 0, FA2_TENSOR_INIT, 0, FA2_TENSOR_INIT, 0, FA2_TENSOR_INIT, 0}

/* Shapes have several forms: the first whose condition holds. `if NAME`: that tensor is given, or that size known.
 * Without a condition: the first of the tensor's rank. */

/* The tensors of fa2_bind_attention(), and after them those that fa2_bind_backward() adds. */
enum {
  FA2_Q = 0, /* q: (total_q, heads_q, head_dim) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim) */
  /* k: (total_k, heads_kv, head_dim) if cu_seqlens_k | (page_count, page_size, heads_kv, head_dim) if
   * page_table | (batch, seqlen_k, heads_kv, head_dim); or float8_e4m3fn */
  FA2_K = 1,
  /* v: (total_k, heads_kv, head_dim_v) if cu_seqlens_k | (page_count, page_size, heads_kv, head_dim_v) if
   * page_table | (batch, seqlen_k, heads_kv, head_dim_v); or float8_e4m3fn */
  FA2_V = 2,
  /* out: (total_q, heads_q, head_dim_v) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim_v); or
   * float32 */
  FA2_OUT = 3,
  FA2_LSE = 4, /* lse: (heads_q, total_q) if cu_seqlens_q | (batch, heads_q, seqlen_q); float32; optional */
  FA2_MAX_LOGITS = 5, /* max_logits: (batch, heads_q); float32; given with max_logits */
  FA2_ALIBI_SLOPES = 6, /* alibi_slopes: (heads_q) | (batch, heads_q); float32; given with alibi */
  FA2_SINKS = 7, /* sinks: (heads_q); float32; given with sinks */
  FA2_DROPOUT_STATE = 8, /* dropout_state: (2); int64; optional with dropout */
  FA2_QUERY_PIECES = 9, /* query_pieces: (batch, 3); int32; optional with query_pieces */
  FA2_CU_SEQLENS_Q = 10, /* cu_seqlens_q: (batch + 1); int32; given with total_q */
  FA2_CU_SEQLENS_K = 11, /* cu_seqlens_k: (batch + 1); int32; given with total_k; not with page_table */
  FA2_SEQUSED_Q = 12, /* seqused_q: (batch); int32; optional with varlen */
  FA2_SEQUSED_K = 13, /* seqused_k: (batch); int32; optional with varlen */
  FA2_PAGE_TABLE = 14, /* page_table: (batch, max_pages); int32; given with page_size */
  FA2_K_DESCALE = 15, /* k_descale: (batch, heads_kv); float32; optional with kv_type */
  FA2_V_DESCALE = 16, /* v_descale: (batch, heads_kv); float32; optional with kv_type */
  FA2_ATTENTION_TENSORS = 17,
  /* d_out: (total_q, heads_q, head_dim_v) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim_v) */
  FA2_D_OUT = 17,
  /* d_lse: (heads_q, total_q) if cu_seqlens_q | (batch, heads_q, seqlen_q); float32; optional */
  FA2_D_LSE = 18,
  /* dq: (total_q, heads_q, head_dim) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim); or float32;
   * optional */
  FA2_GRAD_Q = 19,
  /* dk: (total_k, heads_kv, head_dim) if cu_seqlens_k | (batch, seqlen_k, heads_kv, head_dim); or float32;
   * optional */
  FA2_GRAD_K = 20,
  /* dv: (total_k, heads_kv, head_dim_v) if cu_seqlens_k | (batch, seqlen_k, heads_kv, head_dim_v); or
   * float32; optional */
  FA2_GRAD_V = 21,
  FA2_GRAD_SINKS = 22, /* d_sinks: (heads_q); float32; optional with sinks */
  FA2_BACKWARD_TENSORS = 23
};

/* The tensors of fa2_bind_append(). */
enum {
  /* k: (total_new, heads_kv, head_dim) if cu_seqlens_new | (batch, seqlen_new, heads_kv, head_dim) */
  FA2_APPEND_K = 0,
  /* v: (total_new, heads_kv, head_dim_v) if cu_seqlens_new | (batch, seqlen_new, heads_kv, head_dim_v) */
  FA2_APPEND_V = 1,
  /* k_cache: (cache_entries, page_size, heads_kv, head_dim) if page_table | (cache_entries, cache_rows,
   * heads_kv, head_dim); or float8_e4m3fn */
  FA2_APPEND_K_CACHE = 2,
  /* v_cache: (cache_entries, page_size, heads_kv, head_dim_v) if page_table | (cache_entries, cache_rows,
   * heads_kv, head_dim_v); or float8_e4m3fn */
  FA2_APPEND_V_CACHE = 3,
  FA2_APPEND_K_DESCALE = 4, /* k_descale: (batch, heads_kv); float32; optional with kv_type */
  FA2_APPEND_V_DESCALE = 5, /* v_descale: (batch, heads_kv); float32; optional with kv_type */
  FA2_APPEND_CACHE_SEQLENS = 6, /* cache_seqlens: (batch); int32 */
  FA2_APPEND_CACHE_BATCH_IDX = 7, /* cache_batch_idx: (batch); int32; optional; not with page_table */
  FA2_APPEND_PAGE_TABLE = 8, /* page_table: (batch, max_pages); int32; given with page_size */
  FA2_APPEND_CU_SEQLENS_NEW = 9, /* cu_seqlens_new: (batch + 1); int32; given with total_new */
  FA2_APPEND_CU_SEQLENS_Q = 10, /* cu_seqlens_q: (batch + 1); int32; optional with total_q */
  /* rotary_cos: (table_rows, rotary_dim / 2); or float32; given with rotary_dim */
  FA2_APPEND_ROTARY_COS = 11,
  /* rotary_sin: (table_rows, rotary_dim / 2); or float32; given with rotary_dim */
  FA2_APPEND_ROTARY_SIN = 12,
  FA2_APPEND_ROTARY_SEQLENS = 13, /* rotary_seqlens: (batch); int32; optional with rotary_dim */
  /* q: (total_q, heads_q, head_dim) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim); optional with
   * heads_q */
  FA2_APPEND_Q = 14,
  /* q_out: (total_q, heads_q, head_dim) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim); given with
   * heads_q */
  FA2_APPEND_Q_OUT = 15,
  FA2_APPEND_TENSORS = 16
};

/* The tensors of fa2_bind_merge(). */
enum {
  /* out_parts: (parts, batch, seqlen, heads, head_dim) | (parts, seqlen, heads, head_dim); or float32 */
  FA2_MERGE_OUT_PARTS = 0,
  /* lse_parts: (parts, batch, heads, seqlen) if batch | (parts, heads, seqlen); float32 */
  FA2_MERGE_LSE_PARTS = 1,
  /* out: (batch, seqlen, heads, head_dim) if batch | (seqlen, heads, head_dim); or float32 */
  FA2_MERGE_OUT = 2,
  FA2_MERGE_LSE = 3, /* lse: (batch, heads, seqlen) if batch | (heads, seqlen); float32; optional */
  FA2_MERGE_TENSORS = 4
};

/* The tensors of fa2_bind_dropout_mask(). */
enum {
  FA2_DROPOUT_MASK = 0, /* mask: (batch, heads_q, seqlen_q, seqlen_k); uint8 */
  FA2_DROPOUT_MASK_DROPOUT_STATE = 1, /* dropout_state: (2); int64; optional with dropout */
  FA2_DROPOUT_MASK_TENSORS = 2
};

/* clang-format on */

#endif
