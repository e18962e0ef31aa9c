/* A call of attention in the form in which Python passes it. */
#ifndef FA2_PYTHON_CALL_H
#define FA2_PYTHON_CALL_H

#include "core.h"

/* The first tensor of fa2/c_call.h that is an option. */
enum { FA2_FIRST_OPTION = FA2_LSE + 1 };

/* A tuple of options, in the order of fa2/_call.py: numbers, from FIRST_TENSOR on tensors or None, as fa2/c_call.h numbers
 * them from FA2_FIRST_OPTION on, texts of scores, and the map of blocks. */
enum {
  /* written: option enumerators */
  MASK,
  WINDOW_LEFT,
  WINDOW_RIGHT,
  ATTENTION_CHUNK,
  MISSING_PAGES,
  BATCH_INVARIANT,
  LSE_BASE,
  SM_MARGIN,
  MAX_SEQLEN_Q,
  MAX_SEQLEN_K,
  SOFTCAP,
  SOFTMAX_SCALE,
  DROPOUT_P,
  DROPOUT_SEED,
  DROPOUT_OFFSET,
  /* end of option enumerators */
  FIRST_TENSOR,
  SCORE_TEXT = FIRST_TENSOR + FA2_ATTENTION_TENSORS - FA2_FIRST_OPTION, /* None: no texts */
  CAPTURES,
  BLOCK_MAP, /* of make_block_map(); None: launches make their own */
  OPTIONS
};

typedef struct {
  PyObject* options[OPTIONS]; /* borrowed */
  PyObject* copies[FA2_OUT];  /* of q, k and v with gaps, owned; NULL: none */
  fa2_problem problem;
  fa2_args args;
  fa2_launch launch;
  fa2_array tensors[FA2_BACKWARD_TENSORS];
  const fa2_array* given[FA2_BACKWARD_TENSORS];
  fa2_capture captures[8]; /* of texts; set if args.captures is */
  float* d_captures[8];    /* their gradients; set if fa2_backward_args.d_captures is */
} Call;

/* ---- call.c ---- */

/* Reads the first `count` tensors of fa2/c_tensors.h, and the options that follow them. release() must follow, also an error. */
int read_call(PyObject* const* operands, int count, Call* call);
void release(Call* call);
/* Completes the problem and the arguments from the tensors. */
int bind_forward(Call* call);
int bind_backward(Call* call, fa2_backward_args* args);

/* ---- options.c ---- */

/* Reads the numbers among the options. Must precede the binding of tensors. */
int read_options(Call* call);

/* ---- scores.c ---- */

/* Reads what the call captures for texts. Must follow the binding of tensors, whose device captures have. */
int read_captures(Call* call);
/* Reads the captures' gradients: None, or a tuple that has a contiguous float32 tensor or None for each capture. Must follow
 * read_captures(). */
int read_capture_gradients(PyObject* tuple, Call* call, fa2_backward_args* args);

#endif
