/* Hands every message of fa2's log to fa2._log.deliver().
 *
 * deliver() waits for the GIL while fa2 may hold locks. A call of fa2 that may wait for such a lock must release the GIL. */
#include <fa2/c_log.h>

#include "core.h"

/* Keeps the exception that is set: a call that has failed may log before it returns. */
static void deliver(void* unused, int32_t level, const char* message) {
  (void)unused;
  const PyGILState_STATE state = PyGILState_Ensure();
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* module = PyImport_ImportModule("fa2._log");
  PyObject* result =
      module != NULL ? PyObject_CallMethod(module, "deliver", "is", (int)level, message) : NULL;
  if (result == NULL && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
    PyErr_Clear();
    PyErr_SetInterrupt(); /* the main thread raises it again */
  } else if (result == NULL) {
    PyErr_WriteUnraisable(module);
  }
  Py_XDECREF(result);
  Py_XDECREF(module);
  PyErr_Restore(type, value, traceback);
  PyGILState_Release(state);
}

/* take_log(bool) -> the previous level. True: deliver() gets all messages. False: it gets none. */
PyObject* take_log(PyObject* self, PyObject* wanted) {
  (void)self;
  static int32_t level_before = FA2_LOG_WARN;
  const int takes = PyObject_IsTrue(wanted);
  if (takes < 0) return NULL;
  if (takes) level_before = fa2_log_level();
  fa2_status status;
  Py_BEGIN_ALLOW_THREADS; /* fa2_set_log() waits for a deliver() that wants the GIL */
  status = fa2_set_log(takes ? deliver : NULL, NULL);
  Py_END_ALLOW_THREADS;
  if (status == FA2_OK) status = fa2_set_log_level(takes ? FA2_LOG_TRACE : level_before);
  return status == FA2_OK ? PyLong_FromLong(level_before) : raise_status(status);
}
