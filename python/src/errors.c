/* fa2_status as Python exceptions. */
#include "core.h"

static PyObject* error;
static PyObject* kinds[8]; /* by fa2_status */

/* A module that is imported again has the types that it had. */
static int add(PyObject* module, PyObject** kind, const char* name, const char* doc, PyObject* bases) {
  if (*kind == NULL) {
    char full[64];
    PyOS_snprintf(full, sizeof full, "fa2.%s", name);
    *kind = PyErr_NewExceptionWithDoc(full, doc, bases, NULL);
  }
  return *kind != NULL ? PyModule_AddObjectRef(module, name, *kind) : -1;
}

static int add_invalid_request(PyObject* module) {
  PyObject* bases = PyTuple_Pack(2, error, PyExc_ValueError);
  if (bases == NULL) return -1;
  const int result =
      add(module, &kinds[FA2_INVALID_REQUEST], "InvalidRequest",
          "The request itself is wrong: the message lists everything that is. Nothing was launched.", bases);
  Py_DECREF(bases);
  return result;
}

int add_errors(PyObject* module) {
  static const struct {
    fa2_status status;
    const char *name, *doc;
  } plain[] = {
      {FA2_COMPILE, "CompileError", "A kernel did not compile, or broke a resource rule."},
      {FA2_CACHE, "CacheError", "A kernel cache could not be read or written."},
      {FA2_CUDA, "CudaError", "The CUDA driver returned an error."},
      {FA2_UNAVAILABLE, "Unavailable",
       "Something needed is missing: a driver, a GPU, NVRTC, a compiler, a precompiled kernel."},
      {FA2_INTERNAL, "InternalError", "A bug in fa2, or no host memory left."},
      {FA2_KERNEL_FAULT, "KernelFault", "An interpreted kernel broke a rule of the machine."},
  };
  if (add(module, &error, "Error", "What fa2 raises; its kinds say why.", PyExc_RuntimeError) < 0 ||
      add_invalid_request(module) < 0)
    return -1;
  for (size_t i = 0; i < sizeof plain / sizeof *plain; ++i)
    if (add(module, &kinds[plain[i].status], plain[i].name, plain[i].doc, error) < 0) return -1;
  return 0;
}

PyObject* raise_status(fa2_status status) {
  if (PyErr_Occurred() != NULL) return NULL; /* a signal's handler raised it and interrupted the call */
  const bool known = status >= FA2_INVALID_REQUEST && status <= FA2_KERNEL_FAULT;
  PyErr_SetString(known ? kinds[status] : error, fa2_last_error());
  return NULL;
}

int unavailable(const char* text) {
  PyErr_SetString(kinds[FA2_UNAVAILABLE], text);
  return -1;
}

int invalid(const char* format, ...) {
  va_list values;
  va_start(values, format);
  PyErr_FormatV(kinds[FA2_INVALID_REQUEST], format, values);
  va_end(values);
  return -1;
}
