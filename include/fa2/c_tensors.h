/* Tensors that have a shape, as DLPack's, turned into problems and arguments of fa2's C interface.
 *
 *   const fa2_array* tensors[FA2_ATTENTION_TENSORS] = {0};
 *   tensors[FA2_Q] = &q, tensors[FA2_K] = &k, tensors[FA2_V] = &v, tensors[FA2_OUT] = &out;
 *   fa2_problem problem = FA2_PROBLEM_INIT;  with the mask and other fields that no tensor tells
 *   fa2_args args = FA2_ARGS_INIT;           with numbers
 *   if (fa2_bind_attention(tensors, FA2_ATTENTION_TENSORS, &problem, &args, NULL) == FA2_OK)
 *     fa2_attention(NULL, &problem, &args, stream);
 *
 * A function reads sizes from shapes, in the order of its enumeration, and compares everything else with them: dtype,
 * device, rank, each extent, strides, and whether an output may be written. Then it fills in the sizes, pointers and strides.
 * FA2_INVALID_REQUEST lists all that is wrong, and nothing was filled in. Nothing is dereferenced or launched. Each function
 * takes `count` pointers; a tensor that is NULL, or beyond `count`, is not given. Structs must be as large as here. */
#ifndef FA2_C_TENSORS_H
#define FA2_C_TENSORS_H

#include <fa2/c_append.h>
#include <fa2/c_backward.h>
#include <fa2/c_combine.h>
#include <fa2/c_dropout.h>

#ifdef __cplusplus
extern "C" {
#endif

/* fa2_array.dtype: FA2_F16, FA2_BF16, or one of these. FA2_OTHER_DTYPE: one that fa2 does not know. */
enum { FA2_OTHER_DTYPE = -1, FA2_FLOAT32 = 2, FA2_INT32 = 3, FA2_INT64 = 4, FA2_UINT8 = 5 };

/* fa2_array.device: a CUDA ordinal, FA2_INTERPRETER_DEVICE for host memory, or this for any other. */
enum { FA2_OTHER_DEVICE = -3 };

/* fa2_array.flags */
enum { FA2_READ_ONLY = 1 };

enum { FA2_MOST_DIMENSIONS = 5 };

typedef struct fa2_array {
  void* data;     /* the first element; may be NULL if an extent is 0 */
  int32_t dtype;  /* FA2_F16 ... FA2_UINT8, FA2_OTHER_DTYPE */
  int32_t device; /* see above */
  int32_t ndim;   /* dimensions; more than FA2_MOST_DIMENSIONS are refused, and their extents not read */
  int32_t flags;  /* 0, FA2_READ_ONLY */
  int64_t shape[FA2_MOST_DIMENSIONS];
  int64_t strides[FA2_MOST_DIMENSIONS]; /* elements */
} fa2_array;

/* The device and the alignment that the tensors of a call share: fa2_plan_create() takes both. */
typedef struct fa2_placement {
  int32_t device;        /* as fa2_array.device */
  int32_t row_alignment; /* FA2_ROWS_...: the strictest that Q, K, V, O and gradients keep */
} fa2_placement;

/* Attention's tensors, with their shapes: the first form whose condition holds, or of several without one that of the
 * tensor's rank. `if NAME`: where that tensor is given. Q, K, V, O and gradients are of one dtype, float16 or bfloat16,
 * and have any strides but in the last dimension, which is contiguous. Rows of the page table may lie apart. Other
 * tensors are contiguous. */
/* clang-format off */
enum {
  FA2_Q = 0,             /* q: (total_q, heads_q, head_dim) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim) */
  FA2_K = 1,             /* k: (total_k, heads_kv, head_dim) if cu_seqlens_k | (page_count, page_size, heads_kv, head_dim) if page_table | (batch, seqlen_k, heads_kv, head_dim) */
  FA2_V = 2,             /* v: (total_k, heads_kv, head_dim_v) if cu_seqlens_k | (page_count, page_size, heads_kv, head_dim_v) if page_table | (batch, seqlen_k, heads_kv, head_dim_v) */
  FA2_OUT = 3,           /* out: (total_q, heads_q, head_dim_v) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim_v) */
  FA2_LSE = 4,           /* lse: (heads_q, total_q) if cu_seqlens_q | (batch, heads_q, seqlen_q); float32 */
  FA2_ALIBI_SLOPES = 5,  /* alibi_slopes: (heads_q) | (batch, heads_q); float32 */
  FA2_SINKS = 6,         /* sinks: (heads_q); float32 */
  FA2_DROPOUT_STATE = 7, /* dropout_state: (2); int64: seed and offset */
  FA2_CU_SEQLENS_Q = 8,  /* cu_seqlens_q: (batch + 1); int32 */
  FA2_CU_SEQLENS_K = 9,  /* cu_seqlens_k: (batch + 1); int32; not with page_table */
  FA2_SEQUSED_Q = 10,    /* seqused_q: (batch); int32 */
  FA2_SEQUSED_K = 11,    /* seqused_k: (batch); int32 */
  FA2_PAGE_TABLE = 12,   /* page_table: (batch, max_pages); int32 */
  FA2_ATTENTION_TENSORS = 13,
  FA2_D_OUT = 13,        /* d_out: (total_q, heads_q, head_dim_v) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim_v) */
  FA2_D_LSE = 14,        /* d_lse: (heads_q, total_q) if cu_seqlens_q | (batch, heads_q, seqlen_q); float32 */
  FA2_GRAD_Q = 15,       /* dq: (total_q, heads_q, head_dim) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim) */
  FA2_GRAD_K = 16,       /* dk: (total_k, heads_kv, head_dim) if cu_seqlens_k | (batch, seqlen_k, heads_kv, head_dim) */
  FA2_GRAD_V = 17,       /* dv: (total_k, heads_kv, head_dim_v) if cu_seqlens_k | (batch, seqlen_k, heads_kv, head_dim_v) */
  FA2_GRAD_SINKS = 18,   /* d_sinks: (heads_q); float32; with sinks */
  FA2_BACKWARD_TENSORS = 19
};
/* clang-format on */

/* Q, K and V are required; fa2_attention() wants out too, which may be made once the sizes are known. The tensors tell
 * all fields of *problem but mask, windows, softcap, dropout and batch_invariant; without dropout a dropout_state is an
 * error of the call. `seqlen_q` and `seqlen_k` are read where sequences are packed: the longest that one may be, -1: not
 * given, which is refused. With a page table a seqlen_k above 0 is a bound below what the table holds. `place`: optional. */
FA2_C_API fa2_status fa2_bind_attention(const fa2_array* const* tensors, size_t count, fa2_problem* problem,
                                        fa2_args* args, fa2_placement* place);

/* As fa2_bind_attention(), for fa2_attention_backward(): out, lse and d_out are required, and a gradient that is not
 * given is not wanted. Fills in *forward too, to which args->forward then points. */
FA2_C_API fa2_status fa2_bind_backward(const fa2_array* const* tensors, size_t count, fa2_problem* problem,
                                       fa2_args* forward, fa2_backward_args* args, fa2_placement* place);

/* The tensors of fa2_append(). New rows, caches, q and q_out are of one dtype, with strides as above. */
/* clang-format off */
enum {
  FA2_APPEND_K = 0,               /* k: (total_new, heads_kv, head_dim) if cu_seqlens_new | (batch, seqlen_new, heads_kv, head_dim) */
  FA2_APPEND_V = 1,               /* v: (total_new, heads_kv, head_dim_v) if cu_seqlens_new | (batch, seqlen_new, heads_kv, head_dim_v) */
  FA2_APPEND_K_CACHE = 2,         /* k_cache: (cache_entries, page_size, heads_kv, head_dim) if page_table | (cache_entries, cache_rows, heads_kv, head_dim) */
  FA2_APPEND_V_CACHE = 3,         /* v_cache: (cache_entries, page_size, heads_kv, head_dim_v) if page_table | (cache_entries, cache_rows, heads_kv, head_dim_v) */
  FA2_APPEND_SEQLENS = 4,         /* cache_seqlens: (batch); int32 */
  FA2_APPEND_CACHE_BATCH_IDX = 5, /* cache_batch_idx: (batch); int32; not with page_table */
  FA2_APPEND_PAGE_TABLE = 6,      /* page_table: (batch, max_pages); int32 */
  FA2_APPEND_CU_SEQLENS_NEW = 7,  /* cu_seqlens_new: (batch + 1); int32 */
  FA2_APPEND_CU_SEQLENS_Q = 8,    /* cu_seqlens_q: (batch + 1); int32; with q */
  FA2_APPEND_COS = 9,             /* rotary_cos: (table_rows, rotary_dim / 2); of k's dtype or float32; contiguous */
  FA2_APPEND_SIN = 10,            /* rotary_sin: (table_rows, rotary_dim / 2); of rotary_cos' dtype; contiguous */
  FA2_APPEND_ROTARY_SEQLENS = 11, /* rotary_seqlens: (batch); int32; with rotary_cos */
  FA2_APPEND_Q = 12,              /* q: (total_q, heads_q, head_dim) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim); with rotary_cos */
  FA2_APPEND_Q_OUT = 13,          /* q_out: (total_q, heads_q, head_dim) if cu_seqlens_q | (batch, seqlen_q, heads_q, head_dim); with q */
  FA2_APPEND_TENSORS = 14
};
/* clang-format on */

/* The tensors tell all fields of *problem but rotary_style and equal_positions. */
FA2_C_API fa2_status fa2_bind_append(const fa2_array* const* tensors, size_t count,
                                     fa2_append_problem* problem, fa2_append_args* args,
                                     fa2_placement* place);

/* The tensors of fa2_combine(). Parts and out are of one dtype, or either is float32; lse_parts have any strides. */
/* clang-format off */
enum {
  FA2_COMBINE_PARTS = 0,     /* out_parts: (parts, batch, seqlen, heads, head_dim) | (parts, seqlen, heads, head_dim) */
  FA2_COMBINE_LSE_PARTS = 1, /* lse_parts: (parts, batch, heads, seqlen) if batch | (parts, heads, seqlen); float32 */
  FA2_COMBINE_OUT = 2,       /* out: (batch, seqlen, heads, head_dim) if batch | (seqlen, heads, head_dim) */
  FA2_COMBINE_LSE = 3,       /* lse: (batch, heads, seqlen) if batch | (heads, seqlen); float32 */
  FA2_COMBINE_TENSORS = 4
};
/* clang-format on */

/* The tensors tell all fields of *problem. */
FA2_C_API fa2_status fa2_bind_combine(const fa2_array* const* tensors, size_t count,
                                      fa2_combine_problem* problem, fa2_combine_args* args,
                                      fa2_placement* place);

/* The tensors of fa2_dropout_mask(). */
enum {
  FA2_DROPOUT_MASK = 0,       /* mask: (batch, heads_q, seqlen_q, seqlen_k); uint8 */
  FA2_DROPOUT_MASK_STATE = 1, /* dropout_state: (2); int64 */
  FA2_DROPOUT_MASK_TENSORS = 2
};

/* Fills in the four sizes and dropout's state, and what makes the problem a valid one with dropout. The mask's pointer
 * is fa2_dropout_mask()'s own argument. */
FA2_C_API fa2_status fa2_bind_dropout_mask(const fa2_array* const* tensors, size_t count,
                                           fa2_problem* problem, fa2_args* args, fa2_placement* place);

#ifdef __cplusplus
}
#endif

#endif
