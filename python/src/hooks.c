/* Calls fa2/_hooks.py, which knows the libraries that tensors come from. */
#include "core.h"

/* Returns a function of fa2._hooks, borrowed. `kept` keeps it from the second call on. */
static PyObject* hook(PyObject** kept, const char* name) {
  if (*kept != NULL) return *kept;
  PyObject* module = PyImport_ImportModule("fa2._hooks");
  if (module != NULL) *kept = PyObject_GetAttrString(module, name);
  Py_XDECREF(module);
  return *kept;
}

PyObject* describe(PyObject* tensor) {
  static PyObject* kept;
  PyObject* const function = hook(&kept, "describe");
  return function != NULL ? PyObject_CallFunctionObjArgs(function, tensor, NULL) : NULL;
}

PyObject* find_stream(int32_t device) {
  static PyObject* kept;
  PyObject* const function = hook(&kept, "current_stream");
  return function != NULL ? PyObject_CallFunction(function, "i", (int)device) : NULL;
}

PyObject* allocate(int32_t device, size_t bytes, size_t zeroed) {
  static PyObject* kept;
  PyObject* const function = hook(&kept, "allocate");
  if (function == NULL) return NULL;
  return PyObject_CallFunction(function, "inn", (int)device, (Py_ssize_t)bytes, (Py_ssize_t)zeroed);
}

PyObject* new_out(PyObject* q, const fa2_array* shape, int64_t columns) {
  static PyObject *kept, *kept_usual;
  const int last = shape->ndim - 1;
  if (shape->shape[last] == columns && shape->strides[last] == 1 && has_exchange_api(q)) {
    /* PyTorch's own function, which costs no Python frame. */
    PyObject* const usual = hook(&kept_usual, "empty_like");
    return usual != NULL ? PyObject_CallFunctionObjArgs(usual, q, NULL) : NULL;
  }
  PyObject* const function = hook(&kept, "new_out");
  return function != NULL ? PyObject_CallFunction(function, "OL", q, (long long)columns) : NULL;
}

PyObject* new_lse(PyObject* q) {
  static PyObject* kept;
  PyObject* const function = hook(&kept, "new_lse");
  return function != NULL ? PyObject_CallFunctionObjArgs(function, q, NULL) : NULL;
}

PyObject* contiguous(PyObject* tensor) {
  static PyObject* kept;
  PyObject* const function = hook(&kept, "contiguous");
  return function != NULL ? PyObject_CallFunctionObjArgs(function, tensor, NULL) : NULL;
}

PyObject* capture_name(int64_t number, Py_ssize_t index) {
  static PyObject* kept;
  PyObject* const function = hook(&kept, "capture_name");
  return function != NULL ? PyObject_CallFunction(function, "Ln", (long long)number, index) : NULL;
}
