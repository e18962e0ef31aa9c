/* forward(), backward(), explain() and tune(): what Python passes, as a problem and its arguments. */
#include <string.h>

#include "call.h"

/* ---- operands ---- */

/* (batch, row, head, column), or (row, head, column) of packed sequences, into (batch, head, row) strides. */
static void place(const Tensor* tensor, fa2_tensor* operand) {
  const int64_t* strides = tensor->strides + (tensor->ndim - 3);
  operand->data = tensor->data;
  operand->strides[0] = tensor->ndim == 4 ? tensor->strides[0] : 0;
  operand->strides[1] = strides[1];
  operand->strides[2] = strides[0];
}

static bool is_empty(const Tensor* tensor) {
  for (int i = 0; i < tensor->ndim; ++i)
    if (tensor->shape[i] == 0) return true;
  return false;
}

/* What a plan may no longer count on if it is to take this operand. */
static void keep_alignment(Call* call, const Tensor* tensor) {
  if (is_empty(tensor)) return;
  int32_t* const alignment = &call->key.row_alignment;
  uint64_t bits = (uint64_t)(uintptr_t)tensor->data;
  for (int i = 0; i < tensor->ndim - 1; ++i) {
    if (tensor->shape[i] <= 1) continue;
    bits |= (uint64_t)tensor->strides[i] * 2;
    if (tensor->strides[i] <= 0 && *alignment == FA2_ROWS_16_BYTES) *alignment = FA2_ROWS_16_BYTES_ANY_ORDER;
  }
  if (bits % 16 != 0) *alignment = FA2_ROWS_ELEMENT;
}

static int read_operand(PyObject* object, const char* name, Call* call, Tensor* tensor, fa2_tensor* operand) {
  if (read_tensor(object, name, tensor) < 0) return -1;
  if (tensor->ndim < 3)
    return invalid(
        "%s has %d dimensions: (batch, seqlen, heads, head_dim), or (total, heads, head_dim) of packed "
        "sequences, is meant",
        name, (int)tensor->ndim);
  if (tensor->dtype != FA2_F16 && tensor->dtype != FA2_BF16) {
    PyErr_Format(PyExc_TypeError,
                 "%s must be float16 or bfloat16: cast it, or pass autocast=True under autocast", name);
    return -1;
  }
  const Tensor* q = &call->q;
  if (tensor->dtype != q->dtype) {
    PyErr_Format(PyExc_TypeError, "%s must have q's dtype", name);
    return -1;
  }
  if (tensor->device != q->device) return invalid("%s must be on q's device", name);
  const int last = tensor->ndim - 1;
  if (tensor->shape[last] > 1 && tensor->strides[last] != 1) call->has_gaps = true;
  place(tensor, operand);
  keep_alignment(call, tensor);
  return 0;
}

static int expect_shape(const Tensor* tensor, const char* name, const Tensor* like, int64_t last) {
  bool same = tensor->ndim == like->ndim && tensor->shape[tensor->ndim - 1] == last;
  for (int i = 0; same && i < like->ndim - 1; ++i) same = tensor->shape[i] == like->shape[i];
  return same ? 0 : invalid("%s has another shape than it should", name);
}

/* ---- a call ---- */

static int read_lse(PyObject* object, Call* call) {
  const fa2_problem* p = &call->key.problem;
  Tensor lse;
  if (read_table(object, "lse", FLOAT32, call->q.device, &lse) < 0) return -1;
  if (object == Py_None) return 0;
  const bool packed = call->q.ndim == 3;
  const bool fits = packed ? lse.ndim == 2 && lse.shape[0] == p->heads_q && lse.shape[1] == call->q.shape[0]
                           : lse.ndim == 3 && lse.shape[0] == p->batch && lse.shape[1] == p->heads_q &&
                                 lse.shape[2] == call->q.shape[1];
  call->args.lse = lse.data;
  return fits ? 0 : invalid("lse must be (batch, heads, seqlen_q), or (heads, total_q) of packed sequences");
}

static int read_options(PyObject* tuple, PyObject** options) {
  if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != OPTIONS)
    return PyErr_Format(PyExc_TypeError, "a tuple of %d options is meant", (int)OPTIONS), -1;
  for (Py_ssize_t i = 0; i < OPTIONS; ++i) options[i] = PyTuple_GetItem(tuple, i);
  return 0;
}

static int read_inputs(PyObject* const* operands, Call* call) {
  fa2_args* const a = &call->args;
  if (read_tensor(operands[Q], "q", &call->q) < 0) return -1;
  if (read_operand(operands[Q], "q", call, &call->q, &a->q) < 0 ||
      read_operand(operands[K], "k", call, &call->k, &a->k) < 0 ||
      read_operand(operands[V], "v", call, &call->v, &a->v) < 0)
    return -1;
  const Tensor *q = &call->q, *k = &call->k, *v = &call->v;
  const int64_t head_dim = q->shape[q->ndim - 1], head_dim_v = v->shape[v->ndim - 1];
  if (k->shape[k->ndim - 1] != head_dim) return invalid("k must have q's head_dim");
  if (head_dim % 8 != 0 || head_dim_v % 8 != 0)
    return invalid("head_dim must be a multiple of 8: fa2.pad_head_dim() fills it up with zeros");
  if (expect_shape(v, "v", k, head_dim_v) < 0) return -1;
  fa2_problem* const p = &call->key.problem;
  p->dtype = q->dtype;
  p->head_dim = (int32_t)head_dim;
  p->head_dim_v = (int32_t)head_dim_v;
  p->heads_q = q->shape[q->ndim - 2];
  p->heads_kv = k->shape[k->ndim - 2];
  call->key.device = q->device;
  return read_sequences(call) < 0 || read_variants(call) < 0 ? -1 : 0;
}

static int read_outputs(PyObject* out, PyObject* lse, Call* call) {
  if (read_operand(out, "out", call, &call->o, &call->args.o) < 0) return -1;
  if (expect_shape(&call->o, "out", &call->q, call->key.problem.head_dim_v) < 0) return -1;
  return read_lse(lse, call);
}

static int begin_call(PyObject* const* operands, Call* call) {
  const fa2_problem problem = FA2_PROBLEM_INIT;
  const fa2_args args = FA2_ARGS_INIT;
  memset(call, 0, sizeof *call);
  call->key.problem = problem;
  call->args = args;
  return read_options(operands[TUPLE], call->options) < 0 ? -1 : read_inputs(operands, call);
}

static int read_call(PyObject* const* operands, Call* call) {
  return begin_call(operands, call) < 0 ? -1 : read_outputs(operands[OUT], operands[LSE], call);
}

/* Whether empty_like(q) is all that an output takes: no other width, and no rows that nothing is written to. */
static bool may_make_output(const Call* call) {
  const fa2_problem* p = &call->key.problem;
  return !call->has_gaps && p->head_dim == p->head_dim_v && call->options[CU_SEQLENS_Q] == Py_None &&
         call->options[SEQUSED_Q] == Py_None;
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
      begin_call(operands, &call) < 0)
    return NULL;
  PyObject* out = operands[OUT];
  if (out != Py_None) {
    Py_INCREF(out);
  } else {
    if (!may_make_output(&call)) Py_RETURN_NONE;
    if ((out = empty_like(operands[Q])) == NULL) return NULL;
  }
  int result = read_outputs(out, operands[LSE], &call);
  if (result == 0 && call.has_gaps) {
    Py_DECREF(out);
    Py_RETURN_NONE;
  }
  if (result == 0 && !is_empty(&call.o)) {
    Plan* plan = borrow_plan(&call.key, operands[Q]);
    result = plan != NULL ? run_forward(plan, &call.args, operands[Q], keeps != 0) : -1;
    if (plan != NULL) give_back(plan);
  }
  if (result < 0) Py_CLEAR(out);
  return out;
}

/* Of backward(), before the forward's: d_out, d_lse, dq, dk, dv, d_sinks, bitwise. */
enum { D_OUT, D_LSE, DQ, DK, DV, D_SINKS, BITWISE, GRADIENTS };

static int read_gradient(PyObject* object, const char* name, Call* call, const Tensor* like, int32_t flag,
                         fa2_tensor* operand) {
  Tensor tensor;
  if (object == Py_None) return 0;
  if (read_operand(object, name, call, &tensor, operand) < 0) return -1;
  call->key.gradients |= flag;
  return expect_shape(&tensor, name, like, like->shape[like->ndim - 1]);
}

static int read_gradients(PyObject* const* args, Call* call, fa2_backward_args* a) {
  Tensor d_out, d_lse, d_sinks;
  int64_t bitwise;
  if (read_int(args[BITWISE], "bitwise", &bitwise) < 0 ||
      read_operand(args[D_OUT], "d_out", call, &d_out, &a->d_o) < 0 ||
      expect_shape(&d_out, "d_out", &call->o, call->o.shape[call->o.ndim - 1]) < 0 ||
      read_gradient(args[DQ], "dq", call, &call->q, FA2_DQ, &a->dq) < 0 ||
      read_gradient(args[DK], "dk", call, &call->k, FA2_DK, &a->dk) < 0 ||
      read_gradient(args[DV], "dv", call, &call->v, FA2_DV, &a->dv) < 0 ||
      read_table(args[D_LSE], "d_lse", FLOAT32, call->q.device, &d_lse) < 0 ||
      read_table(args[D_SINKS], "d_sinks", FLOAT32, call->q.device, &d_sinks) < 0)
    return -1;
  a->d_lse = d_lse.data;
  a->d_sinks = d_sinks.data;
  if (args[D_SINKS] != Py_None) call->key.gradients |= FA2_D_SINKS;
  if (bitwise) call->key.gradients |= FA2_BITWISE;
  return 0;
}

PyObject* backward(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  Call call;
  fa2_backward_args a = FA2_BACKWARD_ARGS_INIT;
  PyObject* const* const operands = args + GRADIENTS;
  if (expect_count("backward", count, GRADIENTS + OPERANDS) < 0 || read_call(operands, &call) < 0 ||
      read_gradients(args, &call, &a) < 0)
    return NULL;
  if (call.has_gaps) Py_RETURN_FALSE;
  a.forward = &call.args;
  Plan* plan = borrow_plan(&call.key, operands[Q]);
  if (plan == NULL) return NULL;
  const int result = run_backward(plan, &a, operands[Q]);
  give_back(plan);
  if (result < 0) return NULL;
  Py_RETURN_TRUE;
}

/* Of explain() and tune(), before the forward's: gradients (0: the forward), and of tune() whether every config is tried. */
enum { WHICH, EVERY, CHOICES };

PyObject* explain(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  Call call;
  int64_t gradients;
  if (expect_count("explain", count, CHOICES + OPERANDS) < 0 ||
      read_int(args[WHICH], "gradients", &gradients) < 0 || read_call(args + CHOICES, &call) < 0)
    return NULL;
  call.key.gradients = (int32_t)gradients;
  Plan* plan = borrow_plan(&call.key, args[CHOICES + Q]);
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
      read_call(args + CHOICES, &call) < 0)
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
