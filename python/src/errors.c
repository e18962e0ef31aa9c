/* fa2_status as Python exceptions. */
#include "core.h"

static PyObject* error;
static PyObject* kinds[8]; /* by fa2_status */

static PyObject* add(PyObject* module, const char* name, const char* doc, PyObject* bases) {
  char full[64];
  PyOS_snprintf(full, sizeof full, "fa2.%s", name);
  PyObject* made = PyErr_NewExceptionWithDoc(full, doc, bases, NULL);
  if (made != NULL && PyModule_AddObjectRef(module, name, made) < 0) Py_CLEAR(made);
  return made;
}

int add_errors(PyObject* module) {
  error = add(module, "Error", "What fa2 raises; its kinds say why.", PyExc_RuntimeError);
  if (error == NULL) return -1;
  PyObject* bases = PyTuple_Pack(2, error, PyExc_ValueError);
  if (bases == NULL) return -1;
  kinds[FA2_INVALID_REQUEST] =
      add(module, "InvalidRequest",
          "The request itself is wrong: the message lists everything that is. Nothing was launched.", bases);
  Py_DECREF(bases);
  kinds[FA2_COMPILE] =
      add(module, "CompileError", "A kernel did not compile, or broke a resource rule.", error);
  kinds[FA2_CACHE] = add(module, "CacheError", "A kernel cache could not be read or written.", error);
  kinds[FA2_CUDA] = add(module, "CudaError", "The CUDA driver returned an error.", error);
  kinds[FA2_UNAVAILABLE] =
      add(module, "Unavailable",
          "Something needed is missing: a driver, a GPU, NVRTC, a compiler, a precompiled kernel.", error);
  kinds[FA2_INTERNAL] = add(module, "InternalError", "A bug in fa2, or no host memory left.", error);
  kinds[FA2_KERNEL_FAULT] =
      add(module, "KernelFault", "An interpreted kernel broke a rule of the machine.", error);
  for (int i = FA2_INVALID_REQUEST; i <= FA2_KERNEL_FAULT; ++i)
    if (kinds[i] == NULL) return -1;
  return 0;
}

PyObject* raise_status(fa2_status status) {
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
