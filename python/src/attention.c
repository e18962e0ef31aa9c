/* forward(), check(), backward(), explain() and tune(). */
#include "call.h"

/* Returns whether rows of the output may belong to no sequence, where kernels write nothing. */
static bool may_have_unused_rows(const Call* call) {
  return call->given[FA2_CU_SEQLENS_Q] != NULL || call->given[FA2_SEQUSED_Q] != NULL;
}

/* Returns whether q and v have the dimensions that determine an output. If not, the binding reports them. */
static bool have_dimensions(const Call* call) {
  const fa2_array *q = call->given[FA2_Q], *v = call->given[FA2_V];
  return q != NULL && v != NULL && (q->ndim == 3 || q->ndim == 4) && v->ndim >= 1 &&
         v->ndim <= FA2_MOST_DIMENSIONS;
}

static PyObject* read_output(PyObject* made, Call* call, int number) {
  if (made == NULL || read_tensor(made, &call->tensors[number]) < 0) {
    Py_XDECREF(made);
    return NULL;
  }
  call->given[number] = &call->tensors[number];
  return made;
}

/* Makes the outputs that the caller has not given: out, and the LSE if it is wanted. */
static int make_outputs(PyObject* const* operands, bool wants_lse, Call* call, PyObject** out,
                        PyObject** lse) {
  PyObject* const q = operands[FA2_Q];
  if (operands[FA2_OUT] != Py_None) {
    Py_INCREF(operands[FA2_OUT]);
    *out = operands[FA2_OUT];
  } else if (have_dimensions(call)) {
    const fa2_array* const v = call->given[FA2_V];
    *out = read_output(new_out(q, call->given[FA2_Q], v->shape[v->ndim - 1]), call, FA2_OUT);
    if (*out == NULL) return -1;
  }
  if (!wants_lse || !have_dimensions(call)) return 0;
  *lse = read_output(new_lse(q), call, FA2_LSE);
  return *lse != NULL ? 0 : -1;
}

/* Binds all tensors. If that fails, an output that the extension has made must not be blamed. */
static int bind_with_outputs(PyObject* const* operands, Call* call) {
  const fa2_problem read = call->problem;
  if (bind_forward(call) == 0) return 0;
  if (operands[FA2_OUT] != Py_None && call->given[FA2_LSE] == NULL) return -1;
  call->problem = read;
  if (operands[FA2_OUT] == Py_None) call->given[FA2_OUT] = NULL;
  call->given[FA2_LSE] = NULL;
  PyErr_Clear();
  if (bind_forward(call) == 0)
    PyErr_SetString(PyExc_SystemError, "fa2 has made an output that does not fit its call");
  return -1;
}

/* Zeroes an output that the extension has made, and that is therefore one block of memory. */
static int fill_zeros(const fa2_array* output, const fa2_launch* launch) {
  size_t bytes = output->dtype == FA2_FLOAT32 ? 4 : 2;
  for (int i = 0; i < output->ndim; ++i) bytes *= (size_t)output->shape[i];
  const fa2_status status = fa2_fill_zeros(output->data, bytes, launch);
  return status == FA2_OK ? 0 : (raise_status(status), -1);
}

static int launch_forward(Call* call, PyObject* const* operands, bool keeps) {
  if (prepare_launch(operands[FA2_Q], keeps, &call->launch) < 0 ||
      read_block_map(call->options[BLOCK_MAP], &call->launch) < 0)
    return -1;
  if (may_have_unused_rows(call)) {
    const fa2_array* const lse = call->given[FA2_LSE];
    if (operands[FA2_OUT] == Py_None && fill_zeros(call->given[FA2_OUT], &call->launch) < 0) return -1;
    if (lse != NULL && fill_zeros(lse, &call->launch) < 0) return -1;
  }
  fa2_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = fa2_launch_attention(&call->problem, &call->args, &call->launch);
  Py_END_ALLOW_THREADS;
  return status == FA2_OK ? 0 : (raise_status(status), -1);
}

/* Warns if q looks like (batch, heads, seqlen, head_dim): read as (batch, seqlen, heads, head_dim) it would be valid but wrong. */
static int warn_of_exchanged_heads(const fa2_problem* p) {
  if (p->varlen || p->heads_q <= 256 || p->heads_q <= p->seqlen_q) return 0;
  return PyErr_WarnFormat(
      PyExc_UserWarning, 1,
      "q.shape = (%lld, %lld, %lld, %d), must be (batch, seqlen, heads, head_dim), and has %lld heads: "
      "pass layout=\"bhsd\" if these are its rows",
      (long long)p->batch, (long long)p->seqlen_q, (long long)p->heads_q, (int)p->head_dim,
      (long long)p->heads_q);
}

/* Returns the result of forward(): out, or (out, lse). Takes the references to both. */
static PyObject* outputs(PyObject* out, PyObject* lse) {
  if (lse == NULL) return out;
  PyObject* both = PyTuple_Pack(2, out, lse);
  Py_DECREF(out);
  Py_DECREF(lse);
  return both;
}

/* The arguments of forward() after q, k, v and out. */
enum { FORWARD_OPTIONS = FA2_LSE, WANTS_LSE, KEEPS, FORWARD_ARGS };

/* forward(q, k, v, out or None, options, wants_lse, keeps) -> out, or (out, lse).
 * keeps: whether memory of the call may outlive it, as the stream's workspace does. */
PyObject* forward(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  Call call;
  int64_t wants_lse, keeps;
  PyObject *out = NULL, *lse = NULL;
  if (expect_count("forward", count, FORWARD_ARGS) < 0 ||
      read_int(args[WANTS_LSE], "wants_lse", &wants_lse) < 0 || read_int(args[KEEPS], "keeps", &keeps) < 0)
    return NULL;
  int result = read_call(args, FA2_LSE, &call);
  if (result == 0) result = make_outputs(args, wants_lse != 0, &call, &out, &lse);
  if (result == 0) result = bind_with_outputs(args, &call);
  if (result == 0) result = warn_of_exchanged_heads(&call.problem);
  if (result == 0) result = launch_forward(&call, args, keeps != 0);
  release(&call);
  if (result == 0) return outputs(out, lse);
  Py_XDECREF(out);
  Py_XDECREF(lse);
  return NULL;
}

/* check(q, k, v, out or None, options): raises the errors of forward()'s tensors, and launches nothing. */
PyObject* check(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  Call call;
  if (expect_count("check", count, FORWARD_OPTIONS + 1) < 0) return NULL;
  int result = read_call(args, FA2_LSE, &call);
  if (result == 0) result = bind_forward(&call);
  release(&call);
  if (result < 0) return NULL;
  Py_RETURN_NONE;
}

/* The arguments of backward() after q, k, v, out, lse and the options: those from FA2_D_OUT on, then the gradients of captures,
 * and bitwise. */
enum {
  GRADIENTS = FA2_FIRST_OPTION + 1,
  D_CAPTURES = GRADIENTS + FA2_BACKWARD_TENSORS - FA2_D_OUT,
  BITWISE,
  BACKWARD_ARGS
};

static int launch_backward(Call* call, fa2_backward_args* args, PyObject* like, bool bitwise) {
  if (prepare_launch(like, false, &call->launch) < 0 ||
      read_block_map(call->options[BLOCK_MAP], &call->launch) < 0)
    return -1;
  args->determinism = bitwise ? FA2_BITWISE : FA2_FASTEST;
  fa2_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = fa2_launch_backward(&call->problem, args, &call->launch);
  Py_END_ALLOW_THREADS;
  return status == FA2_OK ? 0 : (raise_status(status), -1);
}

/* backward(q, k, v, out, lse, options, d_out, ... as fa2/c_call.h numbers them, d_captures, bitwise) */
PyObject* backward(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  Call call;
  fa2_backward_args a = FA2_BACKWARD_ARGS_INIT;
  int64_t bitwise;
  if (expect_count("backward", count, BACKWARD_ARGS) < 0 || read_int(args[BITWISE], "bitwise", &bitwise) < 0)
    return NULL;
  int result = read_call(args, FA2_FIRST_OPTION, &call);
  if (result == 0)
    result = read_tensors(args + GRADIENTS, D_CAPTURES - GRADIENTS, call.tensors + FA2_D_OUT,
                          call.given + FA2_D_OUT);
  if (result == 0) result = bind_backward(&call, &a);
  if (result == 0) result = read_capture_gradients(args[D_CAPTURES], &call, &a);
  if (result == 0) result = launch_backward(&call, &a, args[FA2_Q], bitwise != 0);
  release(&call);
  if (result < 0) return NULL;
  Py_RETURN_NONE;
}

/* The arguments of explain() and tune() after q, k and v; gradients = 0 is the forward, every: all configs. */
enum { CHOICE_OPTIONS = FA2_OUT, CHOICE_GRADIENTS, EVERY };

/* Makes the plan of a forward (gradients = 0) or a backward, and explains it. */
static fa2_status explain_plan(const Call* call, int32_t gradients, char** json) {
  const fa2_placement* const place = &call->launch.place;
  fa2_plan_options options = FA2_PLAN_OPTIONS_INIT;
  options.row_alignment = place->row_alignment;
  fa2_plan* forward = NULL;
  fa2_backward_plan* backward = NULL;
  fa2_status status;
  if (gradients == 0) {
    status = fa2_plan_create(NULL, &call->problem, place->device, &options, &forward);
    if (status == FA2_OK) status = fa2_plan_explain(forward, json);
  } else {
    status = fa2_backward_plan_create(NULL, &call->problem, place->device, gradients, &options, &backward);
    if (status == FA2_OK) status = fa2_backward_plan_explain(backward, json);
  }
  fa2_plan_destroy(forward);
  fa2_backward_plan_destroy(backward);
  return status;
}

static PyObject* explain_call(Call* call, int32_t gradients) {
  if (bind_forward(call) < 0) return NULL;
  char* json = NULL;
  fa2_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = explain_plan(call, gradients, &json);
  Py_END_ALLOW_THREADS;
  return status == FA2_OK ? take_json(json) : raise_status(status);
}

/* explain(q, k, v, options, gradients) -> JSON */
PyObject* explain(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  Call call;
  int64_t gradients;
  if (expect_count("explain", count, CHOICE_GRADIENTS + 1) < 0 ||
      read_int(args[CHOICE_GRADIENTS], "gradients", &gradients) < 0)
    return NULL;
  PyObject* text = NULL;
  if (read_call(args, FA2_OUT, &call) == 0) text = explain_call(&call, (int32_t)gradients);
  release(&call);
  return text;
}

static PyObject* tune_call(Call* call, bool backward, bool every) {
  if (bind_forward(call) < 0) return NULL;
  fa2_tune_options options = FA2_TUNE_OPTIONS_INIT;
  options.scope = every ? FA2_TUNE_ALL : FA2_TUNE_LIKELY;
  options.row_alignment = call->launch.place.row_alignment;
  options.backward = backward;
  char* report = NULL;
  fa2_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = fa2_tune(NULL, &call->problem, call->launch.place.device, &options, &report);
  Py_END_ALLOW_THREADS;
  return status == FA2_OK ? take_json(report) : raise_status(status);
}

/* tune(q, k, v, options, gradients, every) -> JSON */
PyObject* tune(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  Call call;
  int64_t gradients, every;
  if (expect_count("tune", count, EVERY + 1) < 0 ||
      read_int(args[CHOICE_GRADIENTS], "gradients", &gradients) < 0 ||
      read_int(args[EVERY], "every", &every) < 0)
    return NULL;
  PyObject* report = NULL;
  if (read_call(args, FA2_OUT, &call) == 0) report = tune_call(&call, gradients != 0, every != 0);
  release(&call);
  return report;
}
