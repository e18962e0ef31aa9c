/* Reads the numbers among the options of a call. */
#include "call.h"

/* Python's -1 means no bound. The library rejects smaller numbers. */
static int read_bound(PyObject* option, const char* name, int32_t* has_bound, int64_t* bound) {
  if (read_int(option, name, bound) < 0) return -1;
  *has_bound = *bound != -1;
  if (!*has_bound) *bound = 0;
  return 0;
}

/* Python's 0 means none. The library rejects negative numbers. */
static int read_chunk(PyObject* option, int32_t* has_chunk, int64_t* chunk) {
  if (read_int(option, "attention_chunk", chunk) < 0) return -1;
  *has_chunk = *chunk != 0;
  return 0;
}

static int read_longest(PyObject* option, const char* name, int64_t* length) {
  *length = -1;
  return option == Py_None ? 0 : read_int(option, name, length);
}

/* Ignores the state of dropout without dropout. */
static int read_dropout(Call* call) {
  PyObject* const* const options = call->options;
  fa2_args* const a = &call->args;
  if (read_float(options[DROPOUT_P], "dropout_p", &a->dropout_probability) < 0) return -1;
  call->problem.dropout = a->dropout_probability != 0.0f;
  if (a->dropout_probability == 0.0f) {
    call->given[FA2_DROPOUT_STATE] = NULL;
    return 0;
  }
  if (read_uint(options[DROPOUT_SEED], "dropout_seed", &a->dropout_seed) < 0) return -1;
  return read_uint(options[DROPOUT_OFFSET], "dropout_offset", &a->dropout_offset);
}

int read_options(Call* call) {
  PyObject* const* const options = call->options;
  fa2_problem* const p = &call->problem;
  fa2_args* const a = &call->args;
  int64_t mask, invariant, missing;
  if (read_int(options[MASK], "mask", &mask) < 0 ||
      read_int(options[MISSING_PAGES], "missing_pages", &missing) < 0 ||
      read_int(options[BATCH_INVARIANT], "batch_invariant", &invariant) < 0 ||
      read_lse_base(options[LSE_BASE], &p->lse_base) < 0 ||
      read_int32(options[SM_MARGIN], "sm_margin", &p->sm_margin) < 0 ||
      read_float(options[SOFTCAP], "softcap", &a->softcap) < 0 ||
      read_bound(options[WINDOW_LEFT], "window_size[0]", &p->has_window_left, &p->window_left) < 0 ||
      read_bound(options[WINDOW_RIGHT], "window_size[1]", &p->has_window_right, &p->window_right) < 0 ||
      read_chunk(options[ATTENTION_CHUNK], &p->has_attention_chunk, &p->attention_chunk) < 0 ||
      read_longest(options[MAX_SEQLEN_Q], "max_seqlen_q", &p->seqlen_q) < 0 ||
      read_longest(options[MAX_SEQLEN_K], "max_seqlen_k", &p->seqlen_k) < 0 ||
      (options[SCORE_TEXT] != Py_None && read_int(options[SCORE_TEXT], "score_text", &p->score_text) < 0))
    return -1;
  p->mask = (int32_t)mask;
  p->missing_pages = missing != 0;
  p->batch_invariant = invariant != 0;
  p->softcap = a->softcap != 0.0f;
  p->query_pieces = call->given[FA2_QUERY_PIECES] != NULL;
  a->has_softmax_scale = options[SOFTMAX_SCALE] != Py_None;
  if (a->has_softmax_scale && read_float(options[SOFTMAX_SCALE], "softmax_scale", &a->softmax_scale) < 0)
    return -1;
  return read_dropout(call);
}
