/* A call of attention as Python passes it. */
#ifndef FA2_PYTHON_CALL_H
#define FA2_PYTHON_CALL_H

#include "core.h"

/* What every function ends with: tensors by the numbers of fa2/c_tensors.h, and a tuple of options. fa2/_call.py has its list:
 * numbers, and from ALIBI_SLOPES on tensors or None, in the order of fa2/c_tensors.h from FA2_ALIBI_SLOPES on. */
enum { TUPLE = FA2_ALIBI_SLOPES, OPERANDS };
enum {
  SOFTMAX_SCALE,
  MASK,
  WINDOW_LEFT,
  WINDOW_RIGHT,
  SOFTCAP,
  DROPOUT_P,
  DROPOUT_SEED,
  DROPOUT_OFFSET,
  BATCH_INVARIANT,
  MAX_SEQLEN_Q,
  MAX_SEQLEN_K,
  ALIBI_SLOPES,
  OPTIONS = ALIBI_SLOPES + FA2_ATTENTION_TENSORS - FA2_ALIBI_SLOPES
};

typedef struct {
  PyObject* options[OPTIONS]; /* borrowed */
  PlanKey key;
  fa2_args args;
  fa2_array tensors[FA2_BACKWARD_TENSORS];
  const fa2_array* given[FA2_BACKWARD_TENSORS];
} Call;

/* ---- options.c: numbers ---- */

/* Before the tensors are bound. */
int read_options(Call* call);
/* Once the sequences' lengths are known: a window that hides nothing would be another kernel. */
int read_window(Call* call);

#endif
