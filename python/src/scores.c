/* Texts of scores, and what a call captures for them. */
#include <string.h>

#include "call.h"

enum { MOST_CAPTURES = sizeof(((Call*)0)->captures) / sizeof(fa2_capture) };

/* Returns the UTF-8 of a str, which lives as long as that; NULL with an error that names the argument. */
static const char* utf8_of(PyObject* word, const char* name) {
  Py_ssize_t size;
  const char* const text = PyUnicode_Check(word) ? PyUnicode_AsUTF8AndSize(word, &size) : NULL;
  if (text != NULL && strlen(text) == (size_t)size) return text;
  if (!PyErr_Occurred())
    PyErr_Format(PyExc_TypeError, "%s = %.200R, must be a str without null characters", name, word);
  return NULL;
}

/* Reads (text, file, line). None is an empty text. */
static int read_text(PyObject* given, fa2_score_text* text) {
  const fa2_score_text none = {NULL, NULL, 1, 0};
  *text = none;
  if (given == Py_None) return 0;
  if (!PyTuple_Check(given) || PyTuple_Size(given) != 3) {
    PyErr_Format(PyExc_TypeError, "text = %.200R, must be (text, file, line) or None", given);
    return -1;
  }
  text->text = utf8_of(PyTuple_GetItem(given, 0), "text");
  text->file = text->text != NULL ? utf8_of(PyTuple_GetItem(given, 1), "file") : NULL;
  return text->file != NULL ? read_int32(PyTuple_GetItem(given, 2), "line", &text->line) : -1;
}

/* Reads (name, dtype, dimensions). */
static int read_spec(PyObject* given, fa2_capture_spec* spec) {
  if (!PyTuple_Check(given) || PyTuple_Size(given) != 3) {
    PyErr_Format(PyExc_TypeError, "capture = %.200R, must be (name, dtype, dimensions)", given);
    return -1;
  }
  spec->name = utf8_of(PyTuple_GetItem(given, 0), "name");
  if (spec->name == NULL || read_int32(PyTuple_GetItem(given, 1), "dtype", &spec->dtype) < 0) return -1;
  return read_int32(PyTuple_GetItem(given, 2), "dimensions", &spec->dimensions);
}

/* Returns the size of a tuple of captures; -1 with an error if it is none, or too large. */
static Py_ssize_t count_captures(PyObject* tuple) {
  const Py_ssize_t count = PyTuple_Check(tuple) ? PyTuple_Size(tuple) : -1;
  if (count < 0) {
    PyErr_Format(PyExc_TypeError, "captures = %.200R, must be a tuple", tuple);
    return -1;
  }
  if (count > MOST_CAPTURES) return invalid("captures = %zd, must be at most %d", count, (int)MOST_CAPTURES);
  return count;
}

/* Reads (queries, keys) of a mask's blocks. */
static int read_block(PyObject* given, fa2_score_texts* texts) {
  if (!PyTuple_Check(given) || PyTuple_Size(given) != 2) {
    PyErr_Format(PyExc_TypeError, "mask_block = %.200R, must be (queries, keys)", given);
    return -1;
  }
  if (read_int32(PyTuple_GetItem(given, 0), "mask_block", &texts->mask_block_queries) < 0) return -1;
  return read_int32(PyTuple_GetItem(given, 1), "mask_block", &texts->mask_block_keys);
}

/* make_score_text(bias, mod, mod_slope, mask, mask_block, captures) -> number. Texts are (text, file, line) or None, mask_block is
 * (queries, keys), captures are (name, dtype, dimensions). */
PyObject* make_score_text(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  enum { BIAS, MOD, MOD_SLOPE, SHOWN, TEXTS, BLOCK = TEXTS, SPECS, ARGS };
  if (expect_count("make_score_text", count, ARGS) < 0) return NULL;
  fa2_score_text texts[TEXTS];
  for (int i = 0; i < TEXTS; ++i)
    if (read_text(args[i], &texts[i]) < 0) return NULL;
  fa2_capture_spec specs[MOST_CAPTURES];
  const Py_ssize_t spec_count = count_captures(args[SPECS]);
  if (spec_count < 0) return NULL;
  for (Py_ssize_t i = 0; i < spec_count; ++i)
    if (read_spec(PyTuple_GetItem(args[SPECS], i), &specs[i]) < 0) return NULL;
  fa2_score_texts all = FA2_SCORE_TEXTS_INIT;
  all.bias = &texts[BIAS], all.mod = &texts[MOD], all.mod_slope = &texts[MOD_SLOPE], all.mask = &texts[SHOWN];
  all.captures = specs, all.capture_count = (size_t)spec_count;
  if (read_block(args[BLOCK], &all) < 0) return NULL;
  int64_t number;
  const fa2_status status = fa2_make_score_text(&all, &number);
  return status == FA2_OK ? PyLong_FromLongLong(number) : raise_status(status);
}

/* Raises the error about capture `index` of the call. Returns -1. */
static int wrong_capture(const Call* call, Py_ssize_t index, const char* problem) {
  PyObject* const name = capture_name(call->problem.score_text, index);
  if (name == NULL) return -1;
  invalid("captures.%U%s", name, problem);
  Py_DECREF(name);
  return -1;
}

static void name_device(int32_t device, char* name, size_t size) {
  if (device >= 0)
    PyOS_snprintf(name, size, "cuda:%d", (int)device);
  else
    PyOS_snprintf(name, size, "%s", device == FA2_INTERPRETER_DEVICE ? "cpu" : "neither CUDA nor the CPU");
}

static int wrong_device(const Call* call, Py_ssize_t index, int32_t device) {
  char given[32], expected[32], problem[128];
  name_device(device, given, sizeof given);
  name_device(call->launch.place.device, expected, sizeof expected);
  PyOS_snprintf(problem, sizeof problem, ".device = %s, must be %s, as q: move it there", given, expected);
  return wrong_capture(call, index, problem);
}

static void fill_capture(const fa2_array* tensor, fa2_capture* capture) {
  capture->data = tensor->data;
  for (int i = 0; i < tensor->ndim; ++i) {
    capture->sizes[i] = tensor->shape[i];
    capture->strides[i] = tensor->strides[i];
  }
}

static int read_captured_tensor(PyObject* given, Call* call, Py_ssize_t index) {
  fa2_array tensor;
  fa2_capture* const capture = &call->captures[index];
  if (read_tensor(given, &tensor) < 0) return -1;
  if (tensor.device != call->launch.place.device) return wrong_device(call, index, tensor.device);
  if (tensor.ndim > (int)(sizeof capture->sizes / sizeof *capture->sizes))
    return wrong_capture(call, index, ".shape, must have at most 4 dimensions: flatten some");
  fill_capture(&tensor, capture);
  return 0;
}

int read_captures(Call* call) {
  PyObject* const captures = call->options[CAPTURES];
  const Py_ssize_t count = captures != Py_None ? count_captures(captures) : 0;
  if (count <= 0) return (int)count;
  memset(call->captures, 0, sizeof call->captures);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const given = PyTuple_GetItem(captures, i);
    if (!PyFloat_Check(given) && !PyLong_Check(given)) {
      if (read_captured_tensor(given, call, i) < 0) return -1;
      continue;
    }
    call->captures[i].number = PyFloat_AsDouble(given);
    if (call->captures[i].number == -1.0 && PyErr_Occurred()) return -1;
  }
  call->args.captures = call->captures;
  call->args.capture_count = count;
  return 0;
}

/* check_score_text(problem, captures) -> None. The problem is a dict, with score_text; captures are those of a call on the host. */
PyObject* check_score_text(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (expect_count("check_score_text", count, 2) < 0) return NULL;
  Call call;
  memset(&call, 0, sizeof call);
  call.options[CAPTURES] = args[1];
  call.launch.place.device = FA2_INTERPRETER_DEVICE;
  if (read_problem(args[0], &call.problem) < 0 || read_captures(&call) < 0) return NULL;
  fa2_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = fa2_check_score_text(&call.problem, call.args.captures, call.args.capture_count);
  Py_END_ALLOW_THREADS;
  if (status != FA2_OK) return raise_status(status);
  Py_RETURN_NONE;
}

/* fits_per_score(tensor, sizes) -> bool. The sizes are a tuple: batch, heads_q, seqlen_q, seqlen_k. */
PyObject* fits_per_score(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (expect_count("fits_per_score", count, 2) < 0) return NULL;
  fa2_problem problem = FA2_PROBLEM_INIT;
  int64_t* const sizes[] = {&problem.batch, &problem.heads_q, &problem.seqlen_q, &problem.seqlen_k};
  enum { SIZES = sizeof sizes / sizeof sizes[0] };
  if (!PyTuple_Check(args[1]) || PyTuple_Size(args[1]) != SIZES)
    return PyErr_Format(PyExc_TypeError, "sizes = %.200R, must be a tuple of %d", args[1], (int)SIZES);
  for (int i = 0; i < SIZES; ++i)
    if (read_int(PyTuple_GetItem(args[1], i), "sizes", sizes[i]) < 0) return NULL;
  fa2_array tensor;
  fa2_capture capture;
  memset(&capture, 0, sizeof capture);
  if (read_tensor(args[0], &tensor) < 0) return NULL;
  if (tensor.ndim != SIZES) Py_RETURN_FALSE;
  fill_capture(&tensor, &capture);
  int32_t fits;
  const fa2_status status = fa2_fits_per_score(&problem, tensor.dtype, &capture, &fits);
  return status == FA2_OK ? PyBool_FromLong(fits) : raise_status(status);
}

int read_capture_gradients(PyObject* tuple, Call* call, fa2_backward_args* args) {
  if (tuple == Py_None) return 0;
  const Py_ssize_t count = count_captures(tuple);
  if (count < 0) return -1;
  if (count != call->args.capture_count)
    return invalid("d_captures = %zd values, must be one per capture: %d", count,
                   (int)call->args.capture_count);
  for (Py_ssize_t i = 0; i < count; ++i) {
    fa2_array gradient;
    PyObject* const given = PyTuple_GetItem(tuple, i);
    call->d_captures[i] = NULL;
    if (given == Py_None) continue;
    if (read_tensor(given, &gradient) < 0) return -1;
    if (gradient.dtype != FA2_FLOAT32) return wrong_capture(call, i, "'s gradient, must be float32");
    call->d_captures[i] = gradient.data;
  }
  args->d_captures = call->d_captures;
  return 0;
}
