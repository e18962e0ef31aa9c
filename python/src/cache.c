/* append(), merge() and dropout_mask(): one launch each, on the device of the tensors. */
#include "core.h"

/* The data that fa2_on_device() hands to a launch. */
typedef struct {
  const void *problem, *args;
  uint8_t* mask;
  void* stream;
} RowCall;

static fa2_status launch_append(void* data) {
  const RowCall* const call = data;
  return fa2_append(NULL, call->problem, call->args, call->stream);
}

static fa2_status launch_merge(void* data) {
  const RowCall* const call = data;
  return fa2_merge(NULL, call->problem, call->args, call->stream);
}

static fa2_status launch_dropout_mask(void* data) {
  const RowCall* const call = data;
  return fa2_dropout_mask(NULL, call->problem, call->args, call->mask, call->stream);
}

/* Launches a call whose binding returned `bound`, on the current stream of `like`. Returns None or raises. */
static PyObject* launch(fa2_status bound, fa2_status (*body)(void*), RowCall* call, int32_t device,
                        PyObject* like) {
  if (bound != FA2_OK) return raise_status(bound);
  if (current_stream(like, device, &call->stream) < 0) return NULL;
  fa2_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = fa2_on_device(device, body, call);
  Py_END_ALLOW_THREADS;
  if (status != FA2_OK) return raise_status(status);
  Py_RETURN_NONE;
}

/* append()'s numbers follow its tensors. */
enum { INTERLEAVED = FA2_APPEND_TENSORS, CAUSAL_POSITIONS, APPEND_ARGS };

PyObject* append(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  fa2_append_problem p = FA2_APPEND_PROBLEM_INIT;
  fa2_append_args a = FA2_APPEND_ARGS_INIT;
  fa2_array tensors[FA2_APPEND_TENSORS];
  const fa2_array* given[FA2_APPEND_TENSORS];
  fa2_placement place = {FA2_CURRENT_DEVICE, FA2_ROWS_16_BYTES};
  int64_t interleaved, causal;
  if (expect_count("append", count, APPEND_ARGS) < 0 ||
      read_tensors(args, FA2_APPEND_TENSORS, tensors, given) < 0 ||
      read_int(args[INTERLEAVED], "rotary_interleaved", &interleaved) < 0 ||
      read_int(args[CAUSAL_POSITIONS], "causal_positions", &causal) < 0)
    return NULL;
  p.rotary_style = interleaved ? FA2_ROTARY_INTERLEAVED : FA2_ROTARY_HALVES;
  p.causal_positions = causal != 0;
  const fa2_status bound = fa2_bind_append(given, FA2_APPEND_TENSORS, &p, &a, &place);
  RowCall call = {&p, &a, NULL, NULL};
  return launch(bound, launch_append, &call, place.device, args[FA2_APPEND_K]);
}

/* merge(out_parts, lse_parts, out, lse, lse_base) */
PyObject* merge(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  fa2_merge_problem p = FA2_MERGE_PROBLEM_INIT;
  fa2_merge_args a = FA2_MERGE_ARGS_INIT;
  fa2_array tensors[FA2_MERGE_TENSORS];
  const fa2_array* given[FA2_MERGE_TENSORS];
  fa2_placement place = {FA2_CURRENT_DEVICE, FA2_ROWS_16_BYTES};
  if (expect_count("merge", count, FA2_MERGE_TENSORS + 1) < 0 ||
      read_tensors(args, FA2_MERGE_TENSORS, tensors, given) < 0 ||
      read_lse_base(args[FA2_MERGE_TENSORS], &p.lse_base) < 0)
    return NULL;
  const fa2_status bound = fa2_bind_merge(given, FA2_MERGE_TENSORS, &p, &a, &place);
  RowCall call = {&p, &a, NULL, NULL};
  return launch(bound, launch_merge, &call, place.device, args[FA2_MERGE_OUT_PARTS]);
}

/* dropout_mask(mask, state, p, seed, offset) */
PyObject* dropout_mask(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  fa2_problem p = FA2_PROBLEM_INIT;
  fa2_args a = FA2_ARGS_INIT;
  fa2_array tensors[FA2_DROPOUT_MASK_TENSORS];
  const fa2_array* given[FA2_DROPOUT_MASK_TENSORS];
  fa2_placement place = {FA2_CURRENT_DEVICE, FA2_ROWS_16_BYTES};
  if (expect_count("dropout_mask", count, FA2_DROPOUT_MASK_TENSORS + 3) < 0 ||
      read_tensors(args, FA2_DROPOUT_MASK_TENSORS, tensors, given) < 0 ||
      read_float(args[2], "dropout_p", &a.dropout_probability) < 0 ||
      read_uint(args[3], "seed", &a.dropout_seed) < 0 || read_uint(args[4], "offset", &a.dropout_offset) < 0)
    return NULL;
  const fa2_status bound = fa2_bind_dropout_mask(given, FA2_DROPOUT_MASK_TENSORS, &p, &a, &place);
  RowCall call = {&p, &a, tensors[FA2_DROPOUT_MASK].data, NULL};
  return launch(bound, launch_dropout_mask, &call, place.device, args[FA2_DROPOUT_MASK]);
}
