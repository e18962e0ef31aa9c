/* Attention over parts of the keys, merged to attention over all of them, in fa2's C interface: fa2/merge.h has what it is for. */
#ifndef FA2_C_COMBINE_H
#define FA2_C_COMBINE_H

#include <fa2/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fa2_combine_problem {
  uint32_t struct_size;   /* sizeof(fa2_combine_problem) */
  int32_t dtype;          /* FA2_F16, FA2_BF16: of the parts and of O, where they are not float32 */
  int32_t float32_parts;  /* not 0: the parts are float32 */
  int32_t float32_output; /* not 0: O is float32 */
  int32_t head_dim;       /* of O; a multiple of 8 in 8..256 */
  int32_t reserved;       /* 0 */
  int64_t parts;          /* >= 1 */
  int64_t batch;
  int64_t heads;
  int64_t seqlen; /* queries; all of them where sequences are packed, whose batch is 1 */
} fa2_combine_problem;

/* One call's data. Device pointers; strides in ELEMENTS. Two parts are part_stride apart, also where they lie in allocations of
 * their own. */
typedef struct fa2_combine_args {
  uint32_t struct_size;  /* sizeof(fa2_combine_args) */
  int32_t empty_row_lse; /* the LSE of a row that no part has a key of; its O is 0 */
  fa2_tensor parts;      /* (parts, batch, head, row, head_dim), each normalised, as attention writes O */
  int64_t part_stride;
  /* float32 (parts, batch, head, row), natural logarithms; of a row without a key either infinity. */
  fa2_tensor lse_parts;
  int64_t lse_part_stride;
  fa2_tensor o;
  float* lse; /* optional: float32 (batch, heads, seqlen), contiguous */
} fa2_combine_args;

/* clang-format off */
#define FA2_COMBINE_PROBLEM_INIT {sizeof(fa2_combine_problem), FA2_F16, 0, 0, 128, 0, 1, 1, 1, 1}
#define FA2_COMBINE_ARGS_INIT {sizeof(fa2_combine_args), 0, FA2_TENSOR_INIT, 0, FA2_TENSOR_INIT, 0, FA2_TENSOR_INIT, 0}
/* clang-format on */

/* On the current device; `context` NULL: the default one. While `stream` captures, of a dtype, head dim and alignment that were
 * combined before. Thread-safe. Without compiling (FA2_JIT=off) its kernel comes from a pack made with
 * fa2_precompile_options.combine. */
FA2_C_API fa2_status fa2_combine(fa2_context* context, const fa2_combine_problem* problem,
                                 const fa2_combine_args* args, void* stream);

#ifdef __cplusplus
}
#endif

#endif
