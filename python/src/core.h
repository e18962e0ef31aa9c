/* The parts of fa2._core: CPython's limited API over fa2's C interface. Functions that fail set a Python exception. */
#ifndef FA2_PYTHON_CORE_H
#define FA2_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <fa2/c_launch.h>
#include <fa2/c_score_text.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- errors.c ---- */

/* Adds fa2.Error and its kinds to the module. */
int add_errors(PyObject* module);
/* Raises the exception of `status` with the text of fa2_last_error(). Returns NULL. */
PyObject* raise_status(fa2_status status);
/* Raises fa2.InvalidRequest. Returns -1. */
int invalid(const char* format, ...);

/* ---- tensor.c ---- */

/* Reads a tensor of any library. Raises TypeError for any other object. */
int read_tensor(PyObject* object, fa2_array* tensor);
/* Reads `count` objects into `tensors`, to which `given` then points. None is a NULL. */
int read_tensors(PyObject* const* objects, int count, fa2_array* tensors, const fa2_array** given);
/* Returns whether the object's type has the DLPack exchange API, as PyTorch's tensors have from 2.10 on. */
bool has_exchange_api(PyObject* object);
/* Finds the current stream of `device`, on which the tensor `object` lies; NULL for host memory. */
int current_stream(PyObject* object, int32_t device, void** stream);

/* ---- hooks.c: functions of fa2._hooks; each returns a new reference ---- */

/* Returns the result of fa2._hooks.describe(), for a tensor without the exchange API. */
PyObject* describe(PyObject* tensor);
/* Returns the current stream of a device as an int. */
PyObject* find_stream(int32_t device);
/* Returns `bytes` of memory as a tensor. The first `zeroed` of them are 0. */
PyObject* allocate(int32_t device, size_t bytes, size_t zeroed);
/* Returns an output like `q`, which has this `shape`, in q's order in memory, with `columns` columns. */
PyObject* new_out(PyObject* q, const fa2_array* shape, int64_t columns);
PyObject* new_lse(PyObject* q);
/* Returns a copy without gaps in the last dimension. */
PyObject* contiguous(PyObject* tensor);
/* Returns the name of a capture of make_score_text()'s `number` as a str. */
PyObject* capture_name(int64_t number, Py_ssize_t index);

/* ---- launch.c ---- */

/* Completes `launch`, whose place is known, for the current stream of `like`, a tensor of the call. `keeps`: whether the
 * workspace may be the stream's own, which outlives the call. */
int prepare_launch(PyObject* like, bool keeps, fa2_launch* launch);

/* ---- block_map.c ---- */

/* Has the launch, which is prepared, use a map of make_block_map() if that is of the launch's stream. None is none. */
int read_block_map(PyObject* capsule, fa2_launch* launch);

/* ---- numbers.c ---- */

/* Read Python numbers. An error names the argument. */
int read_int(PyObject* object, const char* name, int64_t* value);
int read_int32(PyObject* object, const char* name, int32_t* value);
int read_uint(PyObject* object, const char* name, uint64_t* value);
int read_float(PyObject* object, const char* name, float* value);
/* Reads "natural" or "two". */
int read_lse_base(PyObject* word, int32_t* base);
/* Reads {"head_dim": 64, ...} into the fields of the struct. */
int read_problem(PyObject* fields, fa2_problem* problem);
/* Returns a str of `json`, and frees that. */
PyObject* take_json(char* json);
int expect_count(const char* function, Py_ssize_t count, Py_ssize_t expected);

/* ---- functions of the module ---- */

PyObject* forward(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* check(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* backward(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* explain(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* tune(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* make_score_text(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* check_score_text(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* fits_per_score(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* make_block_map(PyObject* self, PyObject* stream);
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
