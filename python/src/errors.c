/* Turns fa2_status into Python exceptions. */
#include <string.h>

#include "core.h"

static PyObject *error, *invalid_type;
static PyObject* kinds[FA2_COMMUNICATION + 1]; /* by fa2_status; NULL: has none */

/* Keeps the type of an earlier import, if there was one. */
static int add(PyObject* module, PyObject** kind, const char* name, const char* doc, PyObject* bases) {
  if (*kind == NULL) {
    char full[64];
    PyOS_snprintf(full, sizeof full, "fa2.%s", name);
    *kind = PyErr_NewExceptionWithDoc(full, doc, bases, NULL);
  }
  return *kind != NULL ? PyModule_AddObjectRef(module, name, *kind) : -1;
}

static int add_with_bases(PyObject* module, PyObject** kind, const char* name, const char* doc,
                          PyObject* first, PyObject* second) {
  PyObject* bases = PyTuple_Pack(2, first, second);
  if (bases == NULL) return -1;
  const int result = add(module, kind, name, doc, bases);
  Py_DECREF(bases);
  return result;
}

static int add_invalid(PyObject* module) {
  PyObject** const request = &kinds[FA2_INVALID_REQUEST];
  if (add_with_bases(module, request, "InvalidRequest",
                     "The request is wrong. The message lists everything that is. Nothing was launched.",
                     error, PyExc_ValueError) < 0)
    return -1;
  return add_with_bases(module, &invalid_type, "InvalidType",
                        "The request is wrong, and the types or dtypes of arguments are among its mistakes.",
                        *request, PyExc_TypeError);
}

int add_errors(PyObject* module) {
  static const struct {
    fa2_status status;
    const char *name, *doc;
  } plain[] = {
      {FA2_COMPILE, "CompileError", "A kernel did not compile, or exceeds a resource limit."},
      {FA2_CACHE, "CacheError", "A kernel cache could not be read or written."},
      {FA2_CUDA, "CudaError", "The CUDA driver returned an error."},
      {FA2_UNAVAILABLE, "Unavailable",
       "Something needed is missing: a driver, a GPU, NVRTC, a compiler, a precompiled kernel."},
      {FA2_INTERNAL, "InternalError", "A bug in fa2, or no host memory left."},
      {FA2_KERNEL_FAULT, "KernelFault", "An interpreted kernel violated a PTX rule."},
      {FA2_COMMUNICATION, "CommunicationError", "Ranks could not exchange data. Outputs may hold anything."},
  };
  if (add(module, &error, "Error", "The base of everything that fa2 raises. Its kinds say why.",
          PyExc_RuntimeError) < 0 ||
      add_invalid(module) < 0)
    return -1;
  for (size_t i = 0; i < sizeof plain / sizeof *plain; ++i)
    if (add(module, &kinds[plain[i].status], plain[i].name, plain[i].doc, error) < 0) return -1;
  return 0;
}

PyObject* raise_status(fa2_status status) {
  if (PyErr_Occurred() != NULL) return NULL; /* a signal's handler raised it and interrupted the call */
  const char* const text = fa2_last_error();
  const bool known = status >= FA2_INVALID_REQUEST && status <= FA2_COMMUNICATION && kinds[status] != NULL;
  const bool is_type = status == FA2_INVALID_REQUEST && strstr(text, ".dtype = ") != NULL;
  PyErr_SetString(is_type ? invalid_type : known ? kinds[status] : error, text);
  return NULL;
}

int invalid(const char* format, ...) {
  va_list values;
  va_start(values, format);
  PyErr_FormatV(kinds[FA2_INVALID_REQUEST], format, values);
  va_end(values);
  return -1;
}
