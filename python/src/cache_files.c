/* Lists and prunes the compiled kernels of a cache directory. */
#include <fa2/c_cache.h>

#include "core.h"

typedef fa2_status (*Action)(const char* directory, int64_t number, char** json);

static fa2_status list(const char* directory, int64_t verify, char** json) {
  return fa2_cache_list(directory, verify != 0, json);
}

/* name(directory or None, number) -> JSON */
static PyObject* act(const char* name, const char* meaning, Action action, PyObject* const* args,
                     Py_ssize_t count) {
  const char* directory = NULL;
  int64_t number;
  if (expect_count(name, count, 2) < 0) return NULL;
  if (args[0] != Py_None && (directory = PyUnicode_AsUTF8AndSize(args[0], NULL)) == NULL) return NULL;
  if (read_int(args[1], meaning, &number) < 0) return NULL;
  char* json = NULL;
  fa2_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = action(directory, number, &json);
  Py_END_ALLOW_THREADS;
  return status == FA2_OK ? take_json(json) : raise_status(status);
}

PyObject* cache_list(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  return act("cache_list", "verify", list, args, count);
}

PyObject* cache_prune(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  return act("cache_prune", "max_bytes", fa2_cache_prune, args, count);
}
