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

/* Makes texts known in this process, for good, and returns their number for fa2_problem::score_text. A function without a text may
 * be NULL, but not all three. `number` depends on the texts alone. Compiles nothing. Thread-safe. FA2_INVALID_REQUEST if a text is
 * refused. */
FA2_C_API fa2_status fa2_make_score_text(const fa2_score_text* bias, const fa2_score_text* mod,
                                         const fa2_score_text* mask, int64_t* number);

#ifdef __cplusplus
}
#endif

#endif
