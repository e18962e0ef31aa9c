/* The module fa2._core, and its functions without tensors. */
#include <fa2/c_machine.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core.h"

PyObject* machine(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  char* json = NULL;
  fa2_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = fa2_machine(&json);
  Py_END_ALLOW_THREADS;
  return status == FA2_OK ? take_json(json) : raise_status(status);
}

/* Returns the UTF-8 of the items, which live as long as `strings`, in an array to be freed. NULL: an exception is set. */
static const char** texts_of(PyObject* strings, Py_ssize_t* count) {
  *count = PySequence_Size(strings);
  if (*count < 0) return NULL;
  const char** texts = calloc((size_t)*count + 1, sizeof *texts);
  if (texts == NULL) return (void)PyErr_NoMemory(), NULL;
  for (Py_ssize_t i = 0; i < *count; ++i) {
    PyObject* item = PySequence_GetItem(strings, i);
    texts[i] = item != NULL ? PyUnicode_AsUTF8AndSize(item, NULL) : NULL;
    Py_XDECREF(item); /* `strings`, a tuple, owns it */
    if (texts[i] == NULL) return free(texts), NULL;
  }
  return texts;
}

PyObject* set_nvrtc_search(PyObject* self, PyObject* directories) {
  (void)self;
  Py_ssize_t count;
  const char** texts = texts_of(directories, &count);
  if (texts == NULL) return NULL;
  const fa2_status status = fa2_set_nvrtc_search(texts, (size_t)count);
  free(texts);
  if (status != FA2_OK) return raise_status(status);
  Py_RETURN_NONE;
}

static fa2_problem* problems_of(PyObject* dicts, Py_ssize_t* count) {
  *count = PySequence_Size(dicts);
  if (*count < 0) return NULL;
  fa2_problem* problems = calloc((size_t)*count + 1, sizeof *problems);
  if (problems == NULL) return (fa2_problem*)PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < *count; ++i) {
    PyObject* item = PySequence_GetItem(dicts, i);
    const int result = item != NULL ? read_problem(item, &problems[i]) : -1;
    Py_XDECREF(item);
    if (result < 0) return free(problems), NULL;
  }
  return problems;
}

/* Reports progress, on compiling threads. Prints and clears an exception, except that of Ctrl-C, which is_interrupted() finds. */
static void tell(void* callable, size_t done, size_t total) {
  const PyGILState_STATE state = PyGILState_Ensure();
  if (PyErr_Occurred() == NULL) {
    PyObject* result = PyObject_CallFunction(callable, "nn", (Py_ssize_t)done, (Py_ssize_t)total);
    if (result == NULL && !PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) PyErr_WriteUnraisable(callable);
    Py_XDECREF(result);
  }
  PyGILState_Release(state);
}

/* precompile(problems, archs, out or None, requests or None, progress or None, jobs, row_alignment, backward, append, merge, scope)
 * -> JSON */
enum {
  PROBLEMS,
  ARCHS,
  OUT,
  REQUESTS,
  PROGRESS,
  FIRST_NUMBER,
  NUMBERS = 6,
  PRECOMPILE_ARGS = FIRST_NUMBER + NUMBERS
};

PyObject* precompile(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  fa2_precompile_options options = FA2_PRECOMPILE_OPTIONS_INIT;
  int32_t* const into[NUMBERS] = {&options.jobs,   &options.row_alignment, &options.backward,
                                  &options.append, &options.merge,         &options.scope};
  if (expect_count("precompile", count, PRECOMPILE_ARGS) < 0) return NULL;
  for (int i = 0; i < NUMBERS; ++i) {
    int64_t number;
    if (read_int(args[FIRST_NUMBER + i], "an option of precompile", &number) < 0) return NULL;
    *into[i] = (int32_t)number;
  }
  if (args[PROGRESS] != Py_None) {
    options.progress = tell;
    options.progress_data = args[PROGRESS];
  }
  if (args[OUT] != Py_None && (options.out = PyUnicode_AsUTF8AndSize(args[OUT], NULL)) == NULL) return NULL;
  if (args[REQUESTS] != Py_None && (options.requests = PyUnicode_AsUTF8AndSize(args[REQUESTS], NULL)) == NULL)
    return NULL;
  Py_ssize_t problem_count, arch_count;
  char* report = NULL;
  PyObject* text = NULL;
  fa2_problem* problems = problems_of(args[PROBLEMS], &problem_count);
  const char** archs = problems != NULL ? texts_of(args[ARCHS], &arch_count) : NULL;
  if (archs != NULL) {
    fa2_status status;
    Py_BEGIN_ALLOW_THREADS;
    status =
        fa2_precompile(NULL, problems, (size_t)problem_count, archs, (size_t)arch_count, &options, &report);
    Py_END_ALLOW_THREADS;
    const bool failed = status != FA2_OK || PyErr_Occurred() != NULL;
    text = failed ? raise_status(status) : take_json(report);
    if (failed) fa2_string_free(report);
  }
  free(archs);
  free(problems);
  return text;
}

#define FAST(name) \
  { #name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL }
static PyMethodDef functions[] = {FAST(forward),
                                  FAST(check),
                                  FAST(backward),
                                  FAST(explain),
                                  FAST(tune),
                                  FAST(make_score_text),
                                  FAST(check_score_text),
                                  FAST(fits_per_score),
                                  FAST(append),
                                  FAST(merge),
                                  FAST(dropout_mask),
                                  FAST(precompile),
                                  FAST(cache_list),
                                  FAST(cache_prune),
                                  {"make_block_map", make_block_map, METH_O, NULL},
                                  {"machine", machine, METH_NOARGS, NULL},
                                  {"set_nvrtc_search", set_nvrtc_search, METH_O, NULL},
                                  {"take_log", take_log, METH_O, NULL},
                                  {NULL, NULL, 0, NULL}};

/* Returns not 0 if a signal handler raised an exception, which stays set. Python runs handlers only on the main thread. */
static int32_t is_interrupted(void* unused) {
  (void)unused;
  if (syscall(SYS_gettid) != getpid()) return 0;
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool raised = PyErr_Occurred() != NULL || PyErr_CheckSignals() < 0;
  PyGILState_Release(state);
  return raised;
}

/* Raises in a subinterpreter, because exceptions and modules are kept once per process. Slots can say so only from 3.12 on. */
static int require_main_interpreter(void) {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0) return 0;
  PyErr_SetString(
      PyExc_ImportError,
      "fa2._core cannot be imported in a subinterpreter: import fa2 in the main interpreter, or in a "
      "process of its own");
  return -1;
}

static int fill(PyObject* module) {
  if (require_main_interpreter() < 0) return -1;
  if (add_errors(module) < 0 || PyModule_AddStringConstant(module, "version", fa2_version()) < 0) return -1;
  const fa2_status status = fa2_set_interrupt(is_interrupted, NULL);
  return status == FA2_OK ? 0 : (raise_status(status), -1);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void*)fill}, {0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        "fa2._core",
                                        "Calls fa2's C interface with tensors. Users call the package fa2.",
                                        0,
                                        functions,
                                        slots,
                                        NULL,
                                        NULL,
                                        NULL};

/* Initialises in phases, so that the import of every interpreter calls fill(). */
PyMODINIT_FUNC PyInit__core(void) {
  return PyModuleDef_Init(&definition);
}
