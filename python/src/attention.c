/* forward(), check(), backward(), explain() and tune(). */
#include "call.h"

/* Whether rows of the output may belong to no sequence: nothing is written there. */
static bool may_have_unused_rows(const Call* call) {
  return call->given[FA2_CU_SEQLENS_Q] != NULL || call->given[FA2_SEQUSED_Q] != NULL;
}

/* Whether q and v have the dimensions that tell the shape of an output. If not, the binding says what is wrong. */
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

/* Makes what the caller has not given: out, and the LSE if it is wanted. */
static int make_outputs(PyObject* const* operands, bool wants_lse, Call* call, PyObject** out,
                        PyObject** lse) {
  const bool zeros = may_have_unused_rows(call);
  PyObject* const q = operands[FA2_Q];
  if (operands[FA2_OUT] != Py_None) {
    Py_INCREF(operands[FA2_OUT]);
    *out = operands[FA2_OUT];
  } else if (have_dimensions(call)) {
    const fa2_array* const v = call->given[FA2_V];
    *out = read_output(new_out(q, call->given[FA2_Q], v->shape[v->ndim - 1], zeros), call, FA2_OUT);
    if (*out == NULL) return -1;
  }
  if (!wants_lse || !have_dimensions(call)) return 0;
  *lse = read_output(new_lse(q, zeros), call, FA2_LSE);
  return *lse != NULL ? 0 : -1;
}

/* Binds all tensors. If that fails, an output that the extension has made must not be blamed. */
static int bind_with_outputs(PyObject* const* operands, Call* call) {
  const fa2_problem read = call->key.problem;
  if (bind_forward(call) == 0) return 0;
  if (operands[FA2_OUT] != Py_None && call->given[FA2_LSE] == NULL) return -1;
  call->key.problem = read;
  if (operands[FA2_OUT] == Py_None) call->given[FA2_OUT] = NULL;
  call->given[FA2_LSE] = NULL;
  PyErr_Clear();
  return bind_forward(call) < 0 ? -1 : invalid("q = given, must have an output of its shape");
}

static bool is_empty(const fa2_array* tensor) {
  for (int i = 0; i < tensor->ndim; ++i)
    if (tensor->shape[i] == 0) return true;
  return false;
}

static int launch_forward(Call* call, PyObject* like, bool keeps) {
  if (is_empty(call->given[FA2_OUT])) return 0;
  Plan* plan = borrow_plan(&call->key, like);
  if (plan == NULL) return -1;
  const int result = run_forward(plan, &call->args, like, keeps);
  give_back(plan);
  return result;
}

/* Returns what forward() does, and takes the references to both outputs. */
static PyObject* outputs(PyObject* out, PyObject* lse) {
  if (lse == NULL) return out;
  PyObject* both = PyTuple_Pack(2, out, lse);
  Py_DECREF(out);
  Py_DECREF(lse);
  return both;
}

/* What forward() takes after q, k, v and out. */
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
  if (result == 0) result = launch_forward(&call, args[FA2_Q], keeps != 0);
  release(&call);
  if (result == 0) return outputs(out, lse);
  Py_XDECREF(out);
  Py_XDECREF(lse);
  return NULL;
}

/* check(q, k, v, out or None, options): raises what the tensors of forward() have wrong, and launches nothing. */
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

/* What backward() takes after q, k, v, out, lse and the options: as from FA2_D_OUT on, then whether bits must not differ. */
enum {
  GRADIENTS = FA2_ALIBI_SLOPES + 1,
  BITWISE = GRADIENTS + FA2_BACKWARD_TENSORS - FA2_D_OUT,
  BACKWARD_ARGS
};

static int32_t wanted_gradients(const Call* call) {
  static const int32_t flags[] = {FA2_DQ, FA2_DK, FA2_DV, FA2_D_SINKS};
  int32_t wanted = 0;
  for (int i = 0; i < 4; ++i)
    if (call->given[FA2_GRAD_Q + i] != NULL) wanted |= flags[i];
  return wanted;
}

static int launch_backward(Call* call, fa2_backward_args* args, PyObject* like, bool bitwise) {
  call->key.gradients = wanted_gradients(call) | (bitwise ? FA2_BITWISE : FA2_FASTEST);
  Plan* plan = borrow_plan(&call->key, like);
  if (plan == NULL) return -1;
  const int result = run_backward(plan, args, like);
  give_back(plan);
  return result;
}

/* backward(q, k, v, out, lse, options, d_out, d_lse, dq, dk, dv, d_sinks, bitwise) */
PyObject* backward(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  Call call;
  fa2_backward_args a = FA2_BACKWARD_ARGS_INIT;
  int64_t bitwise;
  if (expect_count("backward", count, BACKWARD_ARGS) < 0 || read_int(args[BITWISE], "bitwise", &bitwise) < 0)
    return NULL;
  int result = read_call(args, FA2_ALIBI_SLOPES, &call);
  if (result == 0)
    result =
        read_tensors(args + GRADIENTS, BITWISE - GRADIENTS, call.tensors + FA2_D_OUT, call.given + FA2_D_OUT);
  if (result == 0) result = bind_backward(&call, &a);
  if (result == 0) result = launch_backward(&call, &a, args[FA2_Q], bitwise != 0);
  release(&call);
  if (result < 0) return NULL;
  Py_RETURN_NONE;
}

/* What explain() and tune() take after q, k, v and the options: which gradients, 0 for the forward; whether every config. */
enum { CHOICE_OPTIONS = FA2_OUT, CHOICE_GRADIENTS, EVERY };

static PyObject* explain_call(Call* call, PyObject* like) {
  if (bind_forward(call) < 0) return NULL;
  Plan* plan = borrow_plan(&call->key, like);
  if (plan == NULL) return NULL;
  PyObject* text = explain_plan(plan);
  give_back(plan);
  return text;
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
  if (read_call(args, FA2_OUT, &call) == 0) {
    call.key.gradients = (int32_t)gradients;
    text = explain_call(&call, args[FA2_Q]);
  }
  release(&call);
  return text;
}

static PyObject* tune_call(Call* call, bool backward, bool every) {
  if (bind_forward(call) < 0) return NULL;
  fa2_tune_options options = FA2_TUNE_OPTIONS_INIT;
  options.scope = every ? FA2_TUNE_ALL : FA2_TUNE_LIKELY;
  options.row_alignment = call->key.row_alignment;
  options.backward = backward;
  char* report = NULL;
  fa2_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = fa2_tune(NULL, &call->key.problem, call->key.device, &options, &report);
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
