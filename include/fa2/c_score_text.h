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

/* What texts call beside functions, with an index per dimension. fa2_args::captures holds the tensors and numbers of a call. */
typedef struct fa2_capture_spec {
  const char* name;
  int32_t dtype;
  int32_t dimensions; /* 0..4, or FA2_CAPTURED_NUMBER */
} fa2_capture_spec;

/* Makes texts known in this process, for good, and returns their number for fa2_problem::score_text. A function without a text may
 * be NULL, but not all three; `captures` may be NULL if there are none. `number` depends on texts and captures alone. Compiles nothing. Thread-safe. FA2_INVALID_REQUEST if a text is
 * refused. */
FA2_C_API fa2_status fa2_make_score_text(const fa2_score_text* bias, const fa2_score_text* mod,
                                         const fa2_score_text* mask, const fa2_capture_spec* captures,
                                         size_t capture_count, int64_t* number);

#ifdef __cplusplus
}
#endif

#endif
