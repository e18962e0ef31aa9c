/* The options of a call: sequences, and variants of scores. */
#include "call.h"

int read_sequences(Call* call) {
  PyObject* const* const options = call->options;
  fa2_problem* const p = &call->key.problem;
  fa2_args* const a = &call->args;
  const Tensor *q = &call->q, *k = &call->k;
  const int32_t device = q->device;
  Tensor cu_q, cu_k, used_q, used_k;
  int64_t pages[2] = {0, 0}; /* sequences, pages of one */
  if (read_table(options[CU_SEQLENS_Q], "cu_seqlens_q", INT32, device, &cu_q) < 0 ||
      read_table(options[CU_SEQLENS_K], "cu_seqlens_k", INT32, device, &cu_k) < 0 ||
      read_table(options[SEQUSED_Q], "seqused_q", INT32, device, &used_q) < 0 ||
      read_table(options[SEQUSED_K], "seqused_k", INT32, device, &used_k) < 0 ||
      read_page_table(options[PAGE_TABLE], device, &a->page_table, pages, &a->page_table_stride) < 0)
    return -1;
  const bool paged = options[PAGE_TABLE] != Py_None;
  const bool packed_q = options[CU_SEQLENS_Q] != Py_None, packed_k = options[CU_SEQLENS_K] != Py_None;
  if (packed_q != (q->ndim == 3))
    return invalid("cu_seqlens_q goes with a packed q, (total, heads, head_dim)");
  if (packed_k != (k->ndim == 3))
    return invalid("cu_seqlens_k goes with packed k and v, (total, heads, head_dim)");
  if (packed_q && options[MAX_SEQLEN_Q] == Py_None) return invalid("a packed q takes max_seqlen_q");
  if (packed_k && options[MAX_SEQLEN_K] == Py_None) return invalid("packed k and v take max_seqlen_k");
  if (paged && packed_k) return invalid("page_table goes without cu_seqlens_k: seqused_k has the lengths");

  p->varlen = packed_q || packed_k || paged || used_q.data != NULL || used_k.data != NULL;
  p->batch = packed_q ? cu_q.shape[0] - 1 : q->shape[0];
  p->seqlen_q = packed_q ? 0 : q->shape[1];
  p->total_q = packed_q ? q->shape[0] : 0;
  const int64_t batch_k = packed_k ? cu_k.shape[0] - 1 : paged ? pages[0] : k->shape[0];
  if (batch_k != p->batch)
    return invalid("q has %lld sequences and k has %lld", (long long)p->batch, (long long)batch_k);
  if (paged) {
    p->page_size = (int32_t)k->shape[1];
    p->page_count = k->shape[0];
    p->seqlen_k = pages[1] * k->shape[1];
  } else {
    p->seqlen_k = packed_k ? 0 : k->shape[1];
    p->total_k = packed_k ? k->shape[0] : 0;
  }
  if (options[MAX_SEQLEN_Q] != Py_None && p->varlen &&
      read_int(options[MAX_SEQLEN_Q], "max_seqlen_q", &p->seqlen_q) < 0)
    return -1;
  if (options[MAX_SEQLEN_K] != Py_None && p->varlen &&
      read_int(options[MAX_SEQLEN_K], "max_seqlen_k", &p->seqlen_k) < 0)
    return -1;
  if ((used_q.data != NULL && used_q.shape[0] != p->batch) ||
      (used_k.data != NULL && used_k.shape[0] != p->batch))
    return invalid("seqused_q and seqused_k have an entry a sequence");
  a->cu_seqlens_q = cu_q.data;
  a->cu_seqlens_k = p->total_k > 0 ? cu_k.data : NULL;
  if (packed_k && p->total_k == 0) p->seqlen_k = 0; /* no key at all, which total_k = 0 alone does not say */
  a->seqused_q = used_q.data;
  a->seqused_k = used_k.data;
  return 0;
}

static int read_window(PyObject* const* options, fa2_problem* p) {
  int64_t left, right;
  if (read_int(options[WINDOW_LEFT], "window_size[0]", &left) < 0 ||
      read_int(options[WINDOW_RIGHT], "window_size[1]", &right) < 0)
    return -1;
  if (left < -1 || right < -1) return invalid("window_size takes numbers of keys, or -1 for no bound");
  /* One that hides nothing would be another kernel. */
  const int64_t longest = p->seqlen_k > p->seqlen_q ? p->seqlen_k : p->seqlen_q;
  p->has_window_left = left >= 0 && left < longest;
  p->has_window_right = right >= 0 && right < longest && p->mask == FA2_MASK_NONE;
  p->window_left = p->has_window_left ? left : 0;
  p->window_right = p->has_window_right ? right : 0;
  return 0;
}

static int read_dropout(PyObject* const* options, Call* call) {
  fa2_args* const a = &call->args;
  Tensor state;
  if (read_float(options[DROPOUT_P], "dropout_p", &a->dropout) < 0) return -1;
  call->key.problem.dropout = a->dropout != 0.0f;
  if (!call->key.problem.dropout) return 0;
  if (read_uint(options[DROPOUT_SEED], "dropout_seed", &a->dropout_seed) < 0 ||
      read_uint(options[DROPOUT_OFFSET], "dropout_offset", &a->dropout_offset) < 0 ||
      read_table(options[DROPOUT_STATE], "dropout_state", INT64, call->q.device, &state) < 0)
    return -1;
  if (state.data != NULL && (state.ndim != 1 || state.shape[0] != 2))
    return invalid("dropout_state must be (2): seed and offset");
  a->dropout_state = state.data;
  return 0;
}

int read_variants(Call* call) {
  PyObject* const* const options = call->options;
  fa2_problem* const p = &call->key.problem;
  fa2_args* const a = &call->args;
  const int32_t device = call->q.device;
  Tensor slopes, sinks;
  int64_t mask, invariant;
  if (read_int(options[MASK], "mask", &mask) < 0 ||
      read_int(options[BATCH_INVARIANT], "batch_invariant", &invariant) < 0)
    return -1;
  p->mask = (int32_t)mask;
  p->batch_invariant = invariant != 0;
  if (options[SOFTMAX_SCALE] != Py_None) {
    a->has_softmax_scale = 1;
    if (read_float(options[SOFTMAX_SCALE], "softmax_scale", &a->softmax_scale) < 0) return -1;
  }
  if (read_float(options[SOFTCAP], "softcap", &a->softcap) < 0) return -1;
  p->softcap = a->softcap != 0.0f;
  if (read_table(options[ALIBI_SLOPES], "alibi_slopes", FLOAT32, device, &slopes) < 0 ||
      read_table(options[SINKS], "sinks", FLOAT32, device, &sinks) < 0)
    return -1;
  const int64_t heads = p->heads_q;
  const bool per_batch = slopes.ndim == 2;
  if (slopes.data != NULL && (slopes.ndim > 2 || slopes.ndim < 1 || slopes.shape[slopes.ndim - 1] != heads ||
                              (per_batch && slopes.shape[0] != p->batch)))
    return invalid("alibi_slopes must be (heads) or (batch, heads)");
  if (sinks.data != NULL && (sinks.ndim != 1 || sinks.shape[0] != heads))
    return invalid("sinks must be (heads)");
  p->alibi = slopes.data != NULL;
  p->sinks = sinks.data != NULL;
  a->alibi_slopes = slopes.data;
  a->alibi_slopes_per_batch = per_batch;
  a->sinks = sinks.data;
  return read_window(options, p) < 0 ? -1 : read_dropout(options, call);
}
