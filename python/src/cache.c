/* append(), merge() and dropout_mask(): one launch each on the current device. */
#include <fa2/c_append.h>
#include <fa2/c_combine.h>
#include <fa2/c_dropout.h>
#include <string.h>

#include "core.h"

/* (batch, row, head, column), or (row, head, column) of packed sequences. */
static int read_rows(PyObject* object, const char* name, int32_t dtype, Tensor* tensor, fa2_tensor* operand) {
  memset(tensor, 0, sizeof *tensor);
  if (object == Py_None) return 0;
  if (read_tensor(object, name, tensor) < 0) return -1;
  const int ndim = tensor->ndim;
  if (ndim < 3) return invalid("%s must be (batch, seqlen, heads, head_dim), or packed", name);
  if (tensor->dtype != dtype) return invalid("%s has another dtype than it should", name);
  if (tensor->shape[ndim - 1] > 1 && tensor->strides[ndim - 1] != 1)
    return invalid("the last dimension of %s must be contiguous", name);
  const fa2_tensor placed = {
      tensor->data,
      {ndim == 4 ? tensor->strides[0] : 0, tensor->strides[ndim - 2], tensor->strides[ndim - 3]}};
  *operand = placed;
  return 0;
}

static PyObject* none_or_error(fa2_status status) {
  if (status != FA2_OK) return raise_status(status);
  Py_RETURN_NONE;
}

enum {
  K_NEW,
  V_NEW,
  K_CACHE,
  V_CACHE,
  SEQLENS,
  CACHE_BATCH_IDX,
  PAGE_TABLE,
  CU_SEQLENS_NEW,
  CU_SEQLENS_Q,
  COS,
  SIN,
  ROTARY_SEQLENS,
  INTERLEAVED,
  EQUAL_POSITIONS,
  Q,
  Q_OUT,
  APPEND_ARGS
};

static int read_rotary(PyObject* const* args, fa2_append_problem* p, fa2_append_args* a, int32_t device) {
  if (args[COS] == Py_None) return 0;
  Tensor cos, sin;
  int64_t interleaved, equal;
  if (read_tensor(args[COS], "rotary_cos", &cos) < 0) return -1;
  if (cos.dtype != p->dtype && cos.dtype != FLOAT32)
    return invalid("rotary_cos must have the dtype of k, or be float32");
  if (read_table(args[COS], "rotary_cos", cos.dtype, device, &cos) < 0 ||
      read_table(args[SIN], "rotary_sin", cos.dtype, device, &sin) < 0 ||
      read_int(args[INTERLEAVED], "rotary_interleaved", &interleaved) < 0 ||
      read_int(args[EQUAL_POSITIONS], "equal_positions", &equal) < 0)
    return -1;
  if (cos.ndim != 2 || sin.ndim != 2 || cos.shape[0] != sin.shape[0] || cos.shape[1] != sin.shape[1])
    return invalid("rotary_cos and rotary_sin must be (positions, rotary_dim / 2)");
  p->rotary_dim = (int32_t)cos.shape[1] * 2;
  p->rotary_style = interleaved ? FA2_ROTARY_INTERLEAVED : FA2_ROTARY_HALVES;
  p->float32_tables = cos.dtype == FLOAT32;
  p->equal_positions = equal != 0;
  p->table_rows = cos.shape[0];
  a->cos = cos.data;
  a->sin = sin.data;
  a->table_stride = cos.shape[1];
  return 0;
}

static int read_append_tables(PyObject* const* args, fa2_append_problem* p, fa2_append_args* a,
                              int32_t device) {
  Tensor seqlens, idx, cu_new, cu_q, rotary;
  int64_t pages[2] = {0, 0}; /* sequences, pages of one */
  if (read_table(args[SEQLENS], "cache_seqlens", INT32, device, &seqlens) < 0 ||
      read_table(args[CACHE_BATCH_IDX], "cache_batch_idx", INT32, device, &idx) < 0 ||
      read_page_table(args[PAGE_TABLE], device, &a->page_table, pages, &a->page_table_stride) < 0 ||
      read_table(args[CU_SEQLENS_NEW], "cu_seqlens_new", INT32, device, &cu_new) < 0 ||
      read_table(args[CU_SEQLENS_Q], "cu_seqlens_q", INT32, device, &cu_q) < 0 ||
      read_table(args[ROTARY_SEQLENS], "rotary_seqlens", INT32, device, &rotary) < 0)
    return -1;
  if (seqlens.ndim != 1) return invalid("cache_seqlens must be (batch)");
  p->batch = seqlens.shape[0];
  a->seqlens = seqlens.data;
  a->cache_batch_idx = idx.data;
  p->max_pages = pages[1];
  a->cu_seqlens_new = cu_new.data;
  a->cu_seqlens_q = cu_q.data;
  a->rotary_seqlens = rotary.data;
  return 0;
}

PyObject* append(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  fa2_append_problem p = FA2_APPEND_PROBLEM_INIT;
  fa2_append_args a = FA2_APPEND_ARGS_INIT;
  Tensor k_new, v_new, k_cache, v_cache, q, q_out;
  if (expect_count("append", count, APPEND_ARGS) < 0 || read_tensor(args[K_NEW], "k", &k_new) < 0)
    return NULL;
  p.dtype = k_new.dtype;
  if (read_rows(args[K_NEW], "k", p.dtype, &k_new, &a.k_new) < 0 ||
      read_rows(args[V_NEW], "v", p.dtype, &v_new, &a.v_new) < 0 ||
      read_rows(args[K_CACHE], "k_cache", p.dtype, &k_cache, &a.k_cache) < 0 ||
      read_rows(args[V_CACHE], "v_cache", p.dtype, &v_cache, &a.v_cache) < 0 ||
      read_rows(args[Q], "q", p.dtype, &q, &a.q) < 0 ||
      read_rows(args[Q_OUT], "q_out", p.dtype, &q_out, &a.q_out) < 0)
    return NULL;
  const int32_t device = k_new.device;
  if (k_cache.ndim != 4 || v_cache.ndim != 4)
    return (void)invalid("k_cache and v_cache must be (entries or pages, rows, heads, head_dim)"), NULL;
  p.head_dim = (int32_t)k_new.shape[k_new.ndim - 1];
  p.head_dim_v = (int32_t)v_new.shape[v_new.ndim - 1];
  p.heads_kv = k_new.shape[k_new.ndim - 2];
  p.seqlen_new = k_new.ndim == 4 ? k_new.shape[1] : 0;
  p.total_new = k_new.ndim == 3 ? k_new.shape[0] : 0;
  p.heads_q = args[Q] != Py_None ? q.shape[q.ndim - 2] : 0;
  p.seqlen_q = q.ndim == 4 ? q.shape[1] : 0;
  p.total_q = q.ndim == 3 ? q.shape[0] : 0;
  p.cache_entries = k_cache.shape[0];
  p.cache_rows = k_cache.shape[1];
  p.page_size = args[PAGE_TABLE] != Py_None ? k_cache.shape[1] : 0;
  void* stream;
  if (read_append_tables(args, &p, &a, device) < 0 || read_rotary(args, &p, &a, device) < 0 ||
      current_stream(args[K_NEW], device, &stream) < 0)
    return NULL;
  fa2_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = fa2_append(NULL, &p, &a, stream);
  Py_END_ALLOW_THREADS;
  return none_or_error(status);
}

/* merge(parts, lse_parts, out, lse): (parts, batch, row, head, column) has one dimension more than a Tensor: parts come as the
 * first of them, with how many and the strides between them. */
enum { PART, LSE_PART, PARTS, PART_STRIDE, LSE_PART_STRIDE, OUT, LSE, MERGE_ARGS };

PyObject* merge(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  fa2_combine_problem p = FA2_COMBINE_PROBLEM_INIT;
  fa2_combine_args a = FA2_COMBINE_ARGS_INIT;
  Tensor part, lse_part, out, lse;
  if (expect_count("merge", count, MERGE_ARGS) < 0 || read_tensor(args[PART], "out_parts", &part) < 0 ||
      read_tensor(args[OUT], "out", &out) < 0)
    return NULL;
  p.float32_parts = part.dtype == FLOAT32;
  p.float32_output = out.dtype == FLOAT32;
  p.dtype = !p.float32_parts ? part.dtype : !p.float32_output ? out.dtype : FA2_F16;
  if (read_rows(args[PART], "out_parts", part.dtype, &part, &a.parts) < 0 ||
      read_rows(args[OUT], "out", out.dtype, &out, &a.o) < 0 ||
      read_tensor(args[LSE_PART], "lse_parts", &lse_part) < 0 ||
      read_table(args[LSE], "lse", FLOAT32, part.device, &lse) < 0 ||
      read_int(args[PARTS], "parts", &p.parts) < 0 ||
      read_int(args[PART_STRIDE], "part_stride", &a.part_stride) < 0 ||
      read_int(args[LSE_PART_STRIDE], "lse_part_stride", &a.lse_part_stride) < 0)
    return NULL;
  const bool packed = part.ndim == 3;
  if (lse_part.ndim != part.ndim - 1 || lse_part.dtype != FLOAT32)
    return (void)invalid("lse_parts must be float32 (parts, batch, heads, seqlen), or (parts, heads, total)"),
           NULL;
  p.head_dim = (int32_t)part.shape[part.ndim - 1];
  p.heads = part.shape[part.ndim - 2];
  p.seqlen = part.shape[part.ndim - 3];
  p.batch = packed ? 1 : part.shape[0];
  const int64_t* strides = lse_part.strides;
  const fa2_tensor lse_operand = {
      lse_part.data, {packed ? 0 : strides[0], strides[packed ? 0 : 1], strides[packed ? 1 : 2]}};
  a.lse_parts = lse_operand;
  a.lse = lse.data;
  void* stream;
  if (current_stream(args[PART], part.device, &stream) < 0) return NULL;
  fa2_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = fa2_combine(NULL, &p, &a, stream);
  Py_END_ALLOW_THREADS;
  return none_or_error(status);
}

/* dropout_mask(mask, p, seed, offset, state) */
PyObject* dropout_mask(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  fa2_problem problem = FA2_PROBLEM_INIT;
  fa2_args a = FA2_ARGS_INIT;
  Tensor mask, state;
  if (expect_count("dropout_mask", count, 5) < 0 || read_tensor(args[0], "mask", &mask) < 0 ||
      read_table(args[0], "mask", UINT8, mask.device, &mask) < 0 ||
      read_float(args[1], "dropout_p", &a.dropout) < 0 || read_uint(args[2], "seed", &a.dropout_seed) < 0 ||
      read_uint(args[3], "offset", &a.dropout_offset) < 0 ||
      read_table(args[4], "dropout_state", INT64, mask.device, &state) < 0)
    return NULL;
  if (mask.ndim != 4) return (void)invalid("mask must be (batch, heads, seqlen_q, seqlen_k)"), NULL;
  problem.head_dim = 8;
  problem.dropout = 1;
  problem.batch = mask.shape[0];
  problem.heads_q = mask.shape[1];
  problem.seqlen_q = mask.shape[2];
  problem.seqlen_k = mask.shape[3];
  a.dropout_state = state.data;
  void* stream;
  if (current_stream(args[0], mask.device, &stream) < 0) return NULL;
  fa2_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = fa2_dropout_mask(NULL, &problem, &a, mask.data, stream);
  Py_END_ALLOW_THREADS;
  return none_or_error(status);
}
