/* Tensors that have a shape, as DLPack's, turned into problems and arguments of fa2's C interface.
 *
 *   const fa2_array* tensors[FA2_ATTENTION_TENSORS] = {0};
 *   tensors[FA2_Q] = &q, tensors[FA2_K] = &k, tensors[FA2_V] = &v, tensors[FA2_OUT] = &out;
 *   fa2_problem problem = FA2_PROBLEM_INIT;  with the mask and other fields that no tensor tells
 *   fa2_args args = FA2_ARGS_INIT;           with numbers
 *   if (fa2_bind_attention(tensors, FA2_ATTENTION_TENSORS, &problem, &args, NULL) == FA2_OK)
 *     fa2_attention(NULL, &problem, &args, stream);
 *
 * fa2/c_call.h enumerates the tensors of each operation, with their shapes. Those without an element type are of one dtype,
 * float16 or bfloat16, and may have any strides but in the last dimension, which is contiguous. Rows of a page table may lie
 * apart. Other tensors are contiguous.
 *
 * A function reads sizes from shapes, in the order of its enumeration, and compares everything else with them: dtype,
 * device, rank, each extent, strides, and whether an output may be written. Then it fills in the sizes, pointers and strides.
 * FA2_INVALID_REQUEST lists all that is wrong, and nothing was filled in. Nothing is dereferenced or launched. Each function
 * takes `count` pointers; a tensor that is NULL, or beyond `count`, is not given. Structs must be as large as here. */
#ifndef FA2_C_TENSORS_H
#define FA2_C_TENSORS_H

#include <fa2/c_append.h>
#include <fa2/c_backward.h>
#include <fa2/c_dropout.h>
#include <fa2/c_merge.h>

#ifdef __cplusplus
extern "C" {
#endif

/* fa2_array.device: a CUDA ordinal, FA2_INTERPRETER_DEVICE for host memory, or this for any other. */
enum { FA2_OTHER_DEVICE = -3 };

/* fa2_array.flags */
enum { FA2_READ_ONLY = 1 };

enum { FA2_MOST_DIMENSIONS = 5 };

typedef struct fa2_array {
  void* data;     /* the first element; may be NULL if an extent is 0 */
  int32_t dtype;  /* an element type of fa2/c_call.h */
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

/* Q, K and V are required; fa2_attention() wants out too, which may be made once the sizes are known. The tensors tell
 * all fields of *problem but mask, windows, attention_chunk, softcap, dropout, missing_pages, batch_invariant, lse_base,
 * sm_margin and score_text (values_in_keys is set if V is the first columns of K and head_dim above 256, and cleared otherwise; kv_type is
 * FA2_KV_DS_MLA if Q has 576 columns and K 656 of FA2_FLOAT8_E4M3FN); without dropout a dropout_state is an error of the call.
 * `seqlen_q` and `seqlen_k` are read where sequences are packed: the longest that one may be, -1: not given, which
 * is refused. With a page table a seqlen_k above 0 is a bound below what the table holds. A window as long as the longest
 * sequence hides nothing and is removed, and so is a chunk under a causal mask. `place`: optional. */
FA2_C_API fa2_status fa2_bind_attention(const fa2_array* const* tensors, size_t count, fa2_problem* problem,
                                        fa2_args* args, fa2_placement* place);

/* As fa2_bind_attention(), for fa2_attention_backward(): out, lse and d_out are required, and a gradient that is not
 * given is not wanted. Fills in *forward too, to which args->forward then points. */
FA2_C_API fa2_status fa2_bind_backward(const fa2_array* const* tensors, size_t count, fa2_problem* problem,
                                       fa2_args* forward, fa2_backward_args* args, fa2_placement* place);

/* The tensors tell all fields of *problem but rotary_style and causal_positions. */
FA2_C_API fa2_status fa2_bind_append(const fa2_array* const* tensors, size_t count,
                                     fa2_append_problem* problem, fa2_append_args* args,
                                     fa2_placement* place);

/* The tensors tell all fields of *problem but lse_base. lse_parts may have any strides. */
FA2_C_API fa2_status fa2_bind_merge(const fa2_array* const* tensors, size_t count, fa2_merge_problem* problem,
                                    fa2_merge_args* args, fa2_placement* place);

/* Fills in the four sizes and dropout's state, and what makes the problem a valid one with dropout. The mask's pointer
 * is fa2_dropout_mask()'s own argument. */
FA2_C_API fa2_status fa2_bind_dropout_mask(const fa2_array* const* tensors, size_t count,
                                           fa2_problem* problem, fa2_args* args, fa2_placement* place);

#ifdef __cplusplus
}
#endif

#endif
