/* A call of attention as Python passes it. */
#ifndef FA2_PYTHON_CALL_H
#define FA2_PYTHON_CALL_H

#include "core.h"

/* What every function ends with: tensors, and a tuple of options, of which the last are tensors or None; fa2/_call.py has the
 * same list. */
enum { Q, K, V, OUT, LSE, TUPLE, OPERANDS };
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
  SINKS,
  DROPOUT_STATE,
  CU_SEQLENS_Q,
  CU_SEQLENS_K,
  SEQUSED_Q,
  SEQUSED_K,
  PAGE_TABLE,
  OPTIONS
};

typedef struct {
  PyObject* options[OPTIONS]; /* borrowed */
  PlanKey key;
  fa2_args args;
  Tensor q, k, v, o;
  bool has_gaps; /* a last dimension is not contiguous */
} Call;

/* ---- options.c: what options say, once q, k and v are read ---- */

int read_sequences(Call* call);
/* After read_sequences(): a window is one of the lengths that are there. */
int read_variants(Call* call);

#endif
