/* Functions of scores in a caller's own words, in fa2's C interface. fa2/score_text.h says what a text may contain. */
#ifndef FA2_C_SCORE_TEXT_H
#define FA2_C_SCORE_TEXT_H

#include <fa2/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The body of a function. */
typedef struct fa2_score_text {
  const char* text; /* UTF-8; NULL or empty: no function */
  const char* file; /* the file that compilers name in their messages; NULL: "score text" */
  int32_t line;     /* of the text's beginning; at least 1 */
  int32_t reserved; /* 0 */
} fa2_score_text;

/* fa2_capture_spec.dtype: f16, bf16, float32, int32, int64 or uint8 of fa2/c_call.h, or this: a byte that is 0 or not. */
enum { FA2_CAPTURED_BOOL = 7 };
/* fa2_capture_spec.dimensions of a number: fa2_capture.number holds it; dtype is float32, int32, int64 or bool. */
enum { FA2_CAPTURED_NUMBER = -1 };
/* fa2_capture_spec.dimensions of a float16, bf16 or float32 tensor with an element per score, such as a bias: (batch or 1, heads_q or
 * 1, seqlen_q, seqlen_k), which texts read as `pair(at)`. Kernels on wgmma bring its tiles to shared memory before they need them.
 * Keys must be contiguous; the address and the other strides must be multiples of 16 bytes. */
enum { FA2_CAPTURED_PER_SCORE = -2 };

/* What texts call beside functions, with an index per dimension. fa2_args::captures holds the tensors and numbers of a call. */
typedef struct fa2_capture_spec {
  const char* name;
  int32_t dtype;
  int32_t dimensions; /* 0..4, FA2_CAPTURED_NUMBER or FA2_CAPTURED_PER_SCORE */
} fa2_capture_spec;

/* Functions of scores, and what they capture. A function may be NULL, or its text empty, but not those of bias, mod and mask together. */
typedef struct fa2_score_texts {
  uint32_t struct_size;       /* sizeof(fa2_score_texts) */
  int32_t reserved;           /* 0 */
  const fa2_score_text* bias; /* returns a float, which is added to the score */
  const fa2_score_text* mod;  /* returns the new score */
  /* returns d mod / d score, a float, of the same float `score` as mod; none: kernels of gradients derive it from mod */
  const fa2_score_text* mod_slope;
  const fa2_score_text* mask;       /* returns a bool: whether the query sees the key */
  const fa2_capture_spec* captures; /* NULL if capture_count is 0 */
  size_t capture_count;
  /* The blocks of queries and keys in each of which the mask answers the same for all pairs of a head, counted from 0 in a sequence:
   * such masks are mapped by one evaluation a row and block. 0 or 1: it may differ between any two. */
  int32_t mask_block_queries;
  int32_t mask_block_keys;
} fa2_score_texts;

#define FA2_SCORE_TEXTS_INIT \
  { sizeof(fa2_score_texts), 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Makes texts known in this process, for good, and writes their number for fa2_problem::score_text to *number. It depends on texts
 * and captures alone. Compiles nothing. Thread-safe. FA2_INVALID_REQUEST if a text is refused. */
FA2_C_API fa2_status fa2_make_score_text(const fa2_score_texts* texts, int64_t* number);

/* Writes 1 to *fits if calls of the problem may give a tensor as a capture of FA2_CAPTURED_PER_SCORE, and 0 if its type, sizes, strides or
 * address do not fit. A tensor that does not fit may be a capture of 4 dimensions. `dtype`: as in fa2_capture_spec. Of the problem,
 * batch, heads_q, seqlen_q and seqlen_k count. FA2_INVALID_REQUEST if a pointer is NULL. */
FA2_C_API fa2_status fa2_fits_per_score(const fa2_problem* problem, int32_t dtype, const fa2_capture* capture,
                                        int32_t* fits);

/* Compiles the texts of a problem for the host, in double precision, and compares mod_slope, if there is one, with the derivative of
 * mod at random scores and positions, and the mask at random pairs of each block. `captures`: those of a call, but with pointers to host memory; NULL if capture_count is 0. Needs
 * no device, and a C++ compiler as the interpreter does. FA2_INVALID_REQUEST with a score and its position if mod_slope differs by more
 * than 1e-4, relative above 1, or the mask inside a block, or if the captures are not those of the texts; FA2_COMPILE if a text does not compile, or mod not with
 * numbers that carry a derivative; FA2_UNAVAILABLE without a compiler. */
FA2_C_API fa2_status fa2_check_score_text(const fa2_problem* problem, const fa2_capture* captures,
                                          int64_t capture_count);

#ifdef __cplusplus
}
#endif

#endif
