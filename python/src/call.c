/* Reads a call of attention and has the library bind its tensors. */
#include "call.h"

#include <string.h>

static int unpack_options(PyObject* tuple, PyObject** options) {
  const Py_ssize_t count = PyTuple_Check(tuple) ? PyTuple_Size(tuple) : -1;
  if (count != OPTIONS) {
    PyErr_Format(PyExc_TypeError,
                 "options = %.200R, must be a tuple of %d values: fa2._call.Options names them", tuple,
                 (int)OPTIONS);
    return -1;
  }
  for (Py_ssize_t i = 0; i < OPTIONS; ++i) options[i] = PyTuple_GetItem(tuple, i);
  return 0;
}

/* Replaces q, k or v by a copy where its last dimension has gaps. */
static int close_gaps(PyObject* const* operands, Call* call) {
  for (int i = FA2_Q; i <= FA2_V; ++i) {
    const fa2_array* const tensor = call->given[i];
    if (tensor == NULL || tensor->ndim < 1 || tensor->ndim > FA2_MOST_DIMENSIONS) continue;
    const int last = tensor->ndim - 1;
    if (tensor->shape[last] <= 1 || tensor->strides[last] == 1) continue;
    call->copies[i] = contiguous(operands[i]);
    if (call->copies[i] == NULL || read_tensor(call->copies[i], &call->tensors[i]) < 0) return -1;
  }
  return 0;
}

int read_call(PyObject* const* operands, int count, Call* call) {
  const fa2_problem problem = FA2_PROBLEM_INIT;
  const fa2_args args = FA2_ARGS_INIT;
  const fa2_launch launch = FA2_LAUNCH_INIT;
  call->problem = problem;
  call->args = args;
  call->launch = launch;
  memset(call->copies, 0, sizeof call->copies);
  memset(call->given, 0, sizeof call->given);
  if (unpack_options(operands[count], call->options) < 0 ||
      read_tensors(operands, count, call->tensors, call->given) < 0 ||
      read_tensors(call->options + FIRST_TENSOR, SCORE_TEXT - FIRST_TENSOR, call->tensors + FA2_FIRST_OPTION,
                   call->given + FA2_FIRST_OPTION) < 0 ||
      read_options(call) < 0)
    return -1;
  return close_gaps(operands, call);
}

void release(Call* call) {
  for (int i = FA2_Q; i <= FA2_V; ++i) Py_CLEAR(call->copies[i]);
}

static int finish_binding(Call* call, fa2_status status) {
  return status == FA2_OK ? read_captures(call) : (raise_status(status), -1);
}

int bind_forward(Call* call) {
  const fa2_status status = fa2_bind_attention(call->given, FA2_ATTENTION_TENSORS, &call->problem,
                                               &call->args, &call->launch.place);
  return finish_binding(call, status);
}

int bind_backward(Call* call, fa2_backward_args* args) {
  const fa2_status status = fa2_bind_backward(call->given, FA2_BACKWARD_TENSORS, &call->problem, &call->args,
                                              args, &call->launch.place);
  return finish_binding(call, status);
}
