/* The parts of fa2._core: CPython's limited API over fa2's C interface. Every function that can fail sets a Python exception. */
#ifndef FA2_PYTHON_CORE_H
#define FA2_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <fa2/c_tensors.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- errors.c ---- */

/* Enters fa2.Error and its kinds into the module. */
int add_errors(PyObject* module);
/* Raises what `status` says, with fa2_last_error(). Always NULL. */
PyObject* raise_status(fa2_status status);
/* Raises fa2.InvalidRequest. Always -1. */
int invalid(const char* format, ...);
/* Raises fa2.Unavailable. Always -1. */
int unavailable(const char* text);

/* ---- tensor.c ---- */

/* Reads a tensor of any library. Raises TypeError for any other object. */
int read_tensor(PyObject* object, fa2_array* tensor);
/* Reads `count` objects into `tensors`, to which `given` then points. None is a NULL. */
int read_tensors(PyObject* const* objects, int count, fa2_array* tensors, const fa2_array** given);
/* Returns whether the object's type has the DLPack exchange API, as PyTorch's tensors have from 2.10 on. */
bool has_exchange_api(PyObject* object);
/* Finds the current stream of `device`, on which the tensor `object` lies. Host memory has none: NULL. */
int current_stream(PyObject* object, int32_t device, void** stream);

/* ---- hooks.c: what fa2._hooks makes; each returns a new reference ---- */

/* fa2._hooks itself. */
PyObject* hooks(void);
/* Returns `bytes` of memory as a tensor. The first `zeroed` of them are 0. */
PyObject* allocate(int32_t device, size_t bytes, size_t zeroed);
/* Returns an output like `q`, which has this `shape`, in q's order in memory, with `columns` columns; all 0 if `zeros`. */
PyObject* new_out(PyObject* q, const fa2_array* shape, int64_t columns, bool zeros);
PyObject* new_lse(PyObject* q, bool zeros);
/* Returns a copy without gaps in the last dimension. */
PyObject* contiguous(PyObject* tensor);

/* ---- plans.c ---- */

/* What a plan is looked up by: bytes, without padding. */
typedef struct {
  fa2_problem problem;
  int32_t device;
  int32_t row_alignment;
  int32_t gradients; /* 0: a forward; else as fa2_backward_plan_create() takes them */
  int32_t reserved;
} PlanKey;

typedef struct Plan Plan;

/* Made, and the GIL released, if there is none yet, unless a graph captures the current stream, which `like`, a tensor of the
 * call, tells. To be given back. NULL: an exception is set. */
Plan* borrow_plan(const PlanKey* key, PyObject* like);
void give_back(Plan* plan);
PyObject* explain_plan(const Plan* plan);
/* Give the call a workspace and launch, without the GIL. `like`: a tensor of the call. `keeps`: whether the workspace may be the
 * stream's own, which outlives the call. */
int run_forward(Plan* plan, fa2_args* args, PyObject* like, bool keeps);
int run_backward(Plan* plan, fa2_backward_args* args, PyObject* like);

/* ---- numbers.c ---- */

/* Python numbers of arguments; None where `or_none` says so leaves *value as it is. */
int read_int(PyObject* object, const char* name, int64_t* value);
int read_uint(PyObject* object, const char* name, uint64_t* value);
int read_float(PyObject* object, const char* name, float* value);
/* {"head_dim": 64, ...} into the struct's fields. */
int read_problem(PyObject* fields, fa2_problem* problem);
/* A str of JSON, which is freed. */
PyObject* take_json(char* json);
int expect_count(const char* function, Py_ssize_t count, Py_ssize_t expected);

/* ---- functions of the module ---- */

PyObject* forward(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* check(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* backward(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* explain(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* tune(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* append(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* merge(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* dropout_mask(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* precompile(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* cache_list(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* cache_prune(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* machine(PyObject* self, PyObject* unused);
PyObject* set_nvrtc_search(PyObject* self, PyObject* directories);
PyObject* take_log(PyObject* self, PyObject* wanted);

#endif
