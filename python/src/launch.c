/* Launches of bound calls: the library has plans and workspaces, Python the memory. */
#include "core.h"

/* fa2_allocate, by fa2._hooks. A Python error stays set, and raise_status() finds it. */
static void* allocate_workspace(int32_t device, void* stream, size_t bytes, size_t zeros, void** data) {
  (void)stream; /* the current one, on which Python allocates */
  const PyGILState_STATE state = PyGILState_Ensure();
  fa2_array tensor;
  PyObject* owner = allocate(device, bytes, zeros);
  if (owner != NULL && read_tensor(owner, &tensor) < 0) Py_CLEAR(owner);
  if (owner != NULL) *data = tensor.data;
  PyGILState_Release(state);
  return owner;
}

static void release_workspace(void* owner) {
  const PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF((PyObject*)owner);
  PyGILState_Release(state);
}

int prepare_launch(PyObject* like, bool keeps, fa2_launch* launch) {
  launch->keeps = keeps;
  launch->allocate = allocate_workspace;
  launch->release = release_workspace;
  return current_stream(like, launch->place.device, &launch->stream);
}
