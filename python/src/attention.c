/* forward(), backward(), explain() and tune(): what Python passes, as a problem and its arguments. */
#include <string.h>

#include "call.h"

/* ---- a call ---- */

static bool has_wrong_dtype(const Call* call, int tensor) {
  const fa2_array* const given = call->given[tensor];
  const fa2_array* const q = call->given[FA2_Q];
  if (given == NULL) return false;
  return (given->dtype != FA2_F16 && given->dtype != FA2_BF16) || (q != NULL && given->dtype != q->dtype);
}

/* Raises the library's error: a TypeError if a tensor's dtype is one that attention does not compute. Always -1. */
static int refuse(const Call* call, fa2_status status) {
  static const int computed[] = {FA2_Q, FA2_K, FA2_V, FA2_OUT, FA2_D_OUT, FA2_GRAD_Q, FA2_GRAD_K, FA2_GRAD_V};
  bool is_wrong = false, is_float32 = false;
  for (size_t i = 0; i < sizeof computed / sizeof *computed; ++i) {
    if (!has_wrong_dtype(call, computed[i])) continue;
    is_wrong = true;
    is_float32 = is_float32 || call->given[computed[i]]->dtype == FA2_FLOAT32;
  }
  if (!is_wrong || status != FA2_INVALID_REQUEST) return raise_status(status), -1;
  PyErr_Format(PyExc_TypeError, "%s%s", fa2_last_error(),
               is_float32 ? "\n  float32 tensors: cast them, or pass autocast=True under autocast" : "");
  return -1;
}

static int unpack_options(PyObject* tuple, PyObject** options) {
  if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != OPTIONS)
    return PyErr_Format(PyExc_TypeError, "a tuple of %d options is meant", (int)OPTIONS), -1;
  for (Py_ssize_t i = 0; i < OPTIONS; ++i) options[i] = PyTuple_GetItem(tuple, i);
  return 0;
}

static int read_call(PyObject* const* operands, Call* call) {
  const PlanKey key = {FA2_PROBLEM_INIT, 0, 0, 0, 0};
  const fa2_args args = FA2_ARGS_INIT;
  call->key = key;
  call->args = args;
  memset(call->given, 0, sizeof call->given);
  if (unpack_options(operands[TUPLE], call->options) < 0 ||
      read_tensors(operands, FA2_ALIBI_SLOPES, call->tensors, call->given) < 0 ||
      read_tensors(call->options + ALIBI_SLOPES, OPTIONS - ALIBI_SLOPES, call->tensors + FA2_ALIBI_SLOPES,
                   call->given + FA2_ALIBI_SLOPES) < 0)
    return -1;
  return read_options(call);
}

/* After the library has bound the tensors. */
static int finish_call(Call* call, fa2_status status, const fa2_placement* place) {
  if (status != FA2_OK) return refuse(call, status);
  const fa2_problem* const p = &call->key.problem;
  if (p->head_dim % 8 != 0 || p->head_dim_v % 8 != 0)
    return invalid("head_dim = %d, head_dim_v = %d, must be multiples of 8: fa2.pad_head_dim() adds zeros",
                   (int)p->head_dim, (int)p->head_dim_v);
  call->key.device = place->device;
  call->key.row_alignment = place->row_alignment;
  return read_window(call);
}

/* `makes_out`: out is the extension's own. An error then speaks of the caller's tensors alone. */
static int bind_forward(Call* call, bool makes_out) {
  fa2_placement place;
  const fa2_problem read = call->key.problem;
  fa2_status status =
      fa2_bind_attention(call->given, FA2_ATTENTION_TENSORS, &call->key.problem, &call->args, &place);
  if (status != FA2_OK && makes_out) {
    call->key.problem = read;
    call->given[FA2_OUT] = NULL;
    const fa2_status inputs =
        fa2_bind_attention(call->given, FA2_ATTENTION_TENSORS, &call->key.problem, &call->args, &place);
    if (inputs != FA2_OK) status = inputs;
  }
  return finish_call(call, status, &place);
}

/* Whether Python must copy q, k or v first. */
static bool has_gaps(const Call* call) {
  for (int i = FA2_Q; i <= FA2_V; ++i) {
    const fa2_array* const tensor = call->given[i];
    if (tensor == NULL || tensor->ndim < 1 || tensor->ndim > FA2_MOST_DIMENSIONS) continue;
    const int last = tensor->ndim - 1;
    if (tensor->shape[last] > 1 && tensor->strides[last] != 1) return true;
  }
  return false;
}

/* Whether empty_like(q) is all that an output takes: no other width, and no rows that nothing is written to. */
static bool may_make_output(const Call* call) {
  const fa2_array *q = call->given[FA2_Q], *v = call->given[FA2_V];
  if (call->given[FA2_CU_SEQLENS_Q] != NULL || call->given[FA2_SEQUSED_Q] != NULL) return false;
  if (q == NULL || v == NULL || q->ndim != 4 || (v->ndim != 4 && v->ndim != 3)) return false;
  return q->shape[3] == v->shape[v->ndim - 1];
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

/* Of forward(), before the tensors: whether memory of the call may outlive it, as the stream's workspace does. */
enum { KEEPS, FLAGS };

/* -> out, a new one if it is None; None where Python has to prepare the tensors first. */
PyObject* forward(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  Call call;
  int64_t keeps;
  PyObject* const* const operands = args + FLAGS;
  if (expect_count("forward", count, FLAGS + OPERANDS) < 0 || read_int(args[KEEPS], "keeps", &keeps) < 0 ||
      read_call(operands, &call) < 0)
    return NULL;
  PyObject* out = operands[FA2_OUT];
  const bool makes_out = out == Py_None;
  if (has_gaps(&call) || (makes_out && !may_make_output(&call))) Py_RETURN_NONE;
  if (makes_out) {
    out = empty_like(operands[FA2_Q]);
    if (out == NULL) return NULL;
    call.given[FA2_OUT] = &call.tensors[FA2_OUT];
  } else {
    Py_INCREF(out);
  }
  int result = makes_out ? read_tensor(out, &call.tensors[FA2_OUT]) : 0;
  if (result == 0) result = bind_forward(&call, makes_out);
  if (result == 0) result = launch_forward(&call, operands[FA2_Q], keeps != 0);
  if (result < 0) Py_CLEAR(out);
  return out;
}

/* Of backward(), before the forward's: d_out, d_lse, dq, dk, dv and d_sinks, as from FA2_D_OUT on, and bitwise. */
enum { BITWISE = FA2_BACKWARD_TENSORS - FA2_D_OUT, GRADIENTS };

static int32_t wanted_gradients(const Call* call) {
  static const int32_t flags[] = {FA2_DQ, FA2_DK, FA2_DV, FA2_D_SINKS};
  int32_t wanted = 0;
  for (int i = 0; i < 4; ++i)
    if (call->given[FA2_GRAD_Q + i] != NULL) wanted |= flags[i];
  return wanted;
}

PyObject* backward(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  Call call;
  fa2_backward_args a = FA2_BACKWARD_ARGS_INIT;
  fa2_placement place;
  int64_t bitwise;
  PyObject* const* const operands = args + GRADIENTS;
  if (expect_count("backward", count, GRADIENTS + OPERANDS) < 0 ||
      read_int(args[BITWISE], "bitwise", &bitwise) < 0 || read_call(operands, &call) < 0 ||
      read_tensors(args, BITWISE, call.tensors + FA2_D_OUT, call.given + FA2_D_OUT) < 0)
    return NULL;
  const fa2_status status =
      fa2_bind_backward(call.given, FA2_BACKWARD_TENSORS, &call.key.problem, &call.args, &a, &place);
  if (finish_call(&call, status, &place) < 0) return NULL;
  call.key.gradients = wanted_gradients(&call) | (bitwise ? FA2_BITWISE : FA2_FASTEST);
  Plan* plan = borrow_plan(&call.key, operands[FA2_Q]);
  if (plan == NULL) return NULL;
  const int result = run_backward(plan, &a, operands[FA2_Q]);
  give_back(plan);
  if (result < 0) return NULL;
  Py_RETURN_NONE;
}

/* Of explain() and tune(), before the forward's: gradients (0: the forward), and of tune() whether every config is tried. */
enum { WHICH, EVERY, CHOICES };

PyObject* explain(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  Call call;
  int64_t gradients;
  if (expect_count("explain", count, CHOICES + OPERANDS) < 0 ||
      read_int(args[WHICH], "gradients", &gradients) < 0 || read_call(args + CHOICES, &call) < 0 ||
      bind_forward(&call, false) < 0)
    return NULL;
  call.key.gradients = (int32_t)gradients;
  Plan* plan = borrow_plan(&call.key, args[CHOICES + FA2_Q]);
  if (plan == NULL) return NULL;
  PyObject* text = explain_plan(plan);
  give_back(plan);
  return text;
}

PyObject* tune(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  Call call;
  int64_t gradients, every;
  if (expect_count("tune", count, CHOICES + OPERANDS) < 0 ||
      read_int(args[WHICH], "gradients", &gradients) < 0 || read_int(args[EVERY], "every", &every) < 0 ||
      read_call(args + CHOICES, &call) < 0 || bind_forward(&call, false) < 0)
    return NULL;
  fa2_tune_options options = FA2_TUNE_OPTIONS_INIT;
  options.scope = every ? FA2_TUNE_ALL : FA2_TUNE_LIKELY;
  options.row_alignment = call.key.row_alignment;
  options.backward = gradients != 0;
  char* report = NULL;
  fa2_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = fa2_tune(NULL, &call.key.problem, call.key.device, &options, &report);
  Py_END_ALLOW_THREADS;
  return status == FA2_OK ? take_json(report) : raise_status(status);
}
