/* New keys and values into a cache, keys and queries turned by rotary embedding, in fa2's C interface: fa2/append.h has what it
 * does and what is left out where. */
#ifndef FA2_C_APPEND_H
#define FA2_C_APPEND_H

#include <fa2/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* fa2_append_problem.rotary_style: which two columns turn together by the angle of number i < rotary_dim / 2.
 *   FA2_ROTARY_HALVES:      i and i + rotary_dim / 2 (GPT-NeoX)
 *   FA2_ROTARY_INTERLEAVED: 2 i and 2 i + 1 (GPT-J) */
enum { FA2_ROTARY_HALVES = 0, FA2_ROTARY_INTERLEAVED = 1 };

typedef struct fa2_append_problem {
  uint32_t struct_size; /* sizeof(fa2_append_problem) */
  int32_t dtype;        /* FA2_F16, FA2_BF16 */
  int32_t head_dim;     /* of Q and K; a multiple of 8 in 8..256 */
  int32_t head_dim_v;   /* of V; the same; 0: head_dim */
  int32_t rotary_dim;   /* a multiple of 8 up to head_dim: so many columns turn, from the first on; 0: none */
  int32_t rotary_style; /* FA2_ROTARY_HALVES, FA2_ROTARY_INTERLEAVED */
  int32_t float32_tables; /* not 0: cos and sin are float32; else of dtype */
  /* Not 0: every query turns by the position of new row 0; else query i by that of new row i. */
  int32_t equal_positions;
  int64_t table_rows; /* positions that cos and sin have */
  int64_t batch;      /* sequences */
  int64_t heads_q;    /* 0: there is no Q */
  int64_t heads_kv;
  int64_t seqlen_q;      /* of each sequence; not looked at where Q is packed */
  int64_t seqlen_new;    /* rows that K and V get, the same way */
  int64_t total_q;       /* above 0: Q is packed, (total_q, heads_q, head_dim), by cu_seqlens_q */
  int64_t total_new;     /* above 0: so are the new rows, by cu_seqlens_new */
  int64_t page_size;     /* rows of a page, any number; 0: each sequence has one entry of the cache */
  int64_t cache_entries; /* that the cache has, or pages */
  int64_t cache_rows;    /* of an entry; not looked at where there are pages */
  int64_t max_pages;     /* columns of the page table; not looked at without pages */
} fa2_append_problem;

/* One call's data. Device pointers; strides in ELEMENTS; tables are int32. */
typedef struct fa2_append_args {
  uint32_t struct_size; /* sizeof(fa2_append_args) */
  int32_t reserved;     /* 0 */
  fa2_tensor k_new;     /* (batch, head, row, head_dim); packed: of one batch entry */
  fa2_tensor v_new;
  fa2_tensor k_cache; /* (entry or page, head, row, head_dim) */
  fa2_tensor v_cache;
  const int32_t* seqlens;         /* (batch): rows that each sequence has in the cache before the call */
  const int32_t* cache_batch_idx; /* optional without pages, (batch): the entry of each sequence */
  const int32_t* page_table;      /* with pages, else NULL: (batch, max_pages) */
  int64_t page_table_stride;      /* from one sequence to the next */
  const int32_t* cu_seqlens_new;  /* where the new rows are packed, else NULL: (batch + 1) */
  const int32_t* cu_seqlens_q;    /* where Q is */
  const void* cos;                /* with rotary_dim, else NULL: (table_rows, rotary_dim / 2) */
  const void* sin;
  int64_t table_stride; /* of both, from one position to the next */
  /* Optional with rotary_dim, (batch): positions of new row 0, where they are not seqlens. */
  const int32_t* rotary_seqlens;
  fa2_tensor q;     /* with heads_q: (batch, head, row, head_dim) */
  fa2_tensor q_out; /* may be q, with the same strides */
} fa2_append_args;

/* clang-format off */
#define FA2_APPEND_PROBLEM_INIT {sizeof(fa2_append_problem), FA2_F16, 128, 0, 0, FA2_ROTARY_HALVES, 0, 0, 0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 0}
#define FA2_APPEND_ARGS_INIT {sizeof(fa2_append_args), 0, FA2_TENSOR_INIT, FA2_TENSOR_INIT, FA2_TENSOR_INIT, FA2_TENSOR_INIT, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, FA2_TENSOR_INIT, FA2_TENSOR_INIT}
/* clang-format on */

/* On the current device; `context` NULL: the default one. Thread-safe; no two sequences may append to the same rows. Without
 * compiling (FA2_JIT=off) its kernel comes from a pack made with fa2_precompile_options.append. */
FA2_C_API fa2_status fa2_append(fa2_context* context, const fa2_append_problem* problem,
                                const fa2_append_args* args, void* stream);

#ifdef __cplusplus
}
#endif

#endif
