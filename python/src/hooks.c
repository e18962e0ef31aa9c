/* What the extension asks Python for: fa2/_hooks.py, which knows the libraries that tensors come from. */
#include "core.h"

PyObject* hooks(void) {
  static PyObject* module = NULL; /* never released */
  if (module == NULL) module = PyImport_ImportModule("fa2._hooks");
  return module;
}

PyObject* allocate(int32_t device, size_t bytes, size_t zeroed) {
  if (hooks() == NULL) return NULL;
  return PyObject_CallMethod(hooks(), "allocate", "inn", (int)device, (Py_ssize_t)bytes, (Py_ssize_t)zeroed);
}

/* The usual output, by the one function that costs no Python frame. */
static PyObject* empty_like(PyObject* tensor) {
  static PyObject* name = NULL;
  if (name == NULL && (name = PyUnicode_InternFromString("empty_like")) == NULL) return NULL;
  return PyObject_CallMethodObjArgs(hooks(), name, tensor, NULL);
}

PyObject* new_out(PyObject* q, const fa2_array* shape, int64_t columns, bool zeros) {
  if (hooks() == NULL) return NULL;
  const int last = shape->ndim - 1;
  if (!zeros && shape->shape[last] == columns && shape->strides[last] == 1 && has_exchange_api(q))
    return empty_like(q);
  return PyObject_CallMethod(hooks(), "new_out", "OLi", q, (long long)columns, (int)zeros);
}

PyObject* new_lse(PyObject* q, bool zeros) {
  return hooks() != NULL ? PyObject_CallMethod(hooks(), "new_lse", "Oi", q, (int)zeros) : NULL;
}

PyObject* contiguous(PyObject* tensor) {
  return hooks() != NULL ? PyObject_CallMethod(hooks(), "contiguous", "O", tensor) : NULL;
}
