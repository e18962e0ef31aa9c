/* Tensors of any library: by the DLPack exchange API of their type, which costs no Python call, else by describe(). */
#include <string.h>

#include "core.h"
#include "dlpack.h"

static PyObject *describe, *find_stream, *allocate_bytes, *make_empty_like;

/* Types that were met, with their tables; NULL: they have none. The GIL guards it. */
enum { KNOWN_TYPES = 8 };
static struct {
  PyTypeObject* type;
  const DLPackExchangeAPI* api;
} known[KNOWN_TYPES];

static const DLPackExchangeAPI* look_up_api(PyTypeObject* type) {
  PyObject* capsule = PyObject_GetAttrString((PyObject*)type, "__dlpack_c_exchange_api__");
  if (capsule == NULL) {
    PyErr_Clear();
    return NULL;
  }
  const DLPackExchangeAPIHeader* header = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  if (header == NULL) PyErr_Clear();
  while (header != NULL && header->version.major != 1) header = header->prev_api;
  Py_DECREF(capsule); /* the table lives as long as the type */
  const DLPackExchangeAPI* api = (const DLPackExchangeAPI*)header;
  return api != NULL && api->dltensor_from_py_object_no_sync != NULL ? api : NULL;
}

static const DLPackExchangeAPI* api_of(PyTypeObject* type) {
  for (int i = 0; i < KNOWN_TYPES && known[i].type != NULL; ++i)
    if (known[i].type == type) return known[i].api;
  const DLPackExchangeAPI* api = look_up_api(type);
  static int next = 0;
  PyTypeObject* forgotten = known[next].type;
  Py_INCREF((PyObject*)type);
  known[next].type = type;
  known[next].api = api;
  next = (next + 1) % KNOWN_TYPES;
  Py_XDECREF((PyObject*)forgotten);
  return api;
}

static int32_t dtype_of(DLDataType type) {
  if (type.lanes != 1) return OTHER_DTYPE;
  if (type.code == kDLFloat && type.bits == 16) return FA2_F16;
  if (type.code == kDLBfloat && type.bits == 16) return FA2_BF16;
  if (type.code == kDLFloat && type.bits == 32) return FLOAT32;
  if (type.code == kDLInt && type.bits == 32) return INT32;
  if (type.code == kDLInt && type.bits == 64) return INT64;
  if (type.code == kDLUInt && type.bits == 8) return UINT8;
  return OTHER_DTYPE;
}

static int too_many_dims(const char* name, long long ndim) {
  return invalid("%s has %lld dimensions: at most 4 are meant", name, ndim);
}

static int from_dltensor(const DLTensor* given, const char* name, Tensor* tensor) {
  if (given->ndim > MOST_DIMS) return too_many_dims(name, given->ndim);
  const int32_t type = given->device.device_type;
  if (type != kDLCPU && type != kDLCUDAHost && type != kDLCUDA && type != kDLCUDAManaged)
    return invalid("%s is on a device of DLPack type %d: fa2 computes on CUDA and CPU", name, type);
  tensor->data = (char*)given->data + given->byte_offset;
  tensor->ndim = given->ndim;
  tensor->dtype = dtype_of(given->dtype);
  tensor->device =
      type == kDLCUDA || type == kDLCUDAManaged ? given->device.device_id : FA2_INTERPRETER_DEVICE;
  int64_t contiguous = 1;
  for (int i = given->ndim - 1; i >= 0; --i) {
    tensor->shape[i] = given->shape[i];
    tensor->strides[i] = given->strides != NULL ? given->strides[i] : contiguous;
    contiguous *= given->shape[i];
  }
  return 0;
}

static int read_numbers(PyObject* tuple, int32_t ndim, int64_t* numbers) {
  for (int32_t i = 0; i < ndim; ++i) {
    PyObject* item = PySequence_GetItem(tuple, i);
    if (item == NULL) return -1;
    numbers[i] = PyLong_AsLongLong(item);
    Py_DECREF(item);
    if (numbers[i] == -1 && PyErr_Occurred()) return -1;
  }
  return 0;
}

static int from_description(PyObject* object, const char* name, Tensor* tensor) {
  PyObject* all = PyObject_CallFunctionObjArgs(describe, object, NULL);
  if (all == NULL) return -1;
  unsigned long long data = 0;
  PyObject *shape = NULL, *strides = NULL;
  int dtype = 0, device = 0, result = -1;
  if (PyArg_ParseTuple(all, "KOOii", &data, &shape, &strides, &dtype, &device)) {
    const Py_ssize_t ndim = PySequence_Size(shape);
    tensor->data = (void*)(uintptr_t)data;
    tensor->ndim = (int32_t)ndim;
    tensor->dtype = dtype;
    tensor->device = device;
    if (ndim > MOST_DIMS) {
      too_many_dims(name, (long long)ndim);
    } else if (ndim >= 0 && read_numbers(shape, tensor->ndim, tensor->shape) == 0) {
      result = read_numbers(strides, tensor->ndim, tensor->strides);
    }
  }
  Py_DECREF(all);
  return result;
}

int read_tensor(PyObject* object, const char* name, Tensor* tensor) {
  const DLPackExchangeAPI* api = api_of(Py_TYPE(object));
  if (api == NULL) return from_description(object, name, tensor);
  DLTensor given;
  if (api->dltensor_from_py_object_no_sync(object, &given) != 0) {
    if (!PyErr_Occurred()) invalid("%s cannot be read through DLPack", name);
    return -1;
  }
  return from_dltensor(&given, name, tensor);
}

bool is_contiguous(const Tensor* tensor) {
  int64_t expected = 1;
  for (int i = tensor->ndim - 1; i >= 0; --i) {
    if (tensor->shape[i] > 1 && tensor->strides[i] != expected) return false;
    expected *= tensor->shape[i];
  }
  return true;
}

static int read_beside(PyObject* object, const char* name, int32_t dtype, int32_t device, Tensor* tensor) {
  static const char* const words[] = {"float16", "bfloat16", "float32", "int32", "int64", "uint8"};
  memset(tensor, 0, sizeof *tensor);
  if (object == Py_None) return 0;
  if (read_tensor(object, name, tensor) < 0) return -1;
  if (tensor->dtype != dtype) return invalid("%s must be %s", name, words[dtype]);
  if (tensor->device != device) return invalid("%s must be on the device of the other tensors", name);
  return 0;
}

int read_table(PyObject* object, const char* name, int32_t dtype, int32_t device, Tensor* tensor) {
  if (read_beside(object, name, dtype, device, tensor) < 0) return -1;
  return is_contiguous(tensor) ? 0 : invalid("%s must be contiguous", name);
}

int read_page_table(PyObject* object, int32_t device, const int32_t** entries, int64_t shape[2],
                    int64_t* stride) {
  Tensor table;
  if (read_beside(object, "page_table", INT32, device, &table) < 0) return -1;
  *entries = table.data;
  if (object == Py_None) return 0;
  if (table.ndim != 2) return invalid("page_table must be (batch, pages of a sequence)");
  if (table.shape[1] > 1 && table.strides[1] != 1) return invalid("page_table must have contiguous rows");
  shape[0] = table.shape[0];
  shape[1] = table.shape[1];
  *stride = table.shape[0] > 1 ? table.strides[0] : table.shape[1];
  return 0;
}

int current_stream(PyObject* object, int32_t device, void** stream) {
  *stream = NULL;
  if (device == FA2_INTERPRETER_DEVICE) return 0;
  const DLPackExchangeAPI* api = api_of(Py_TYPE(object));
  if (api != NULL) {
    if (api->current_work_stream(kDLCUDA, device, stream) == 0) return 0;
    return PyErr_Occurred() ? -1 : invalid("the current stream of CUDA device %d is unknown", device);
  }
  PyObject* found = PyObject_CallFunction(find_stream, "i", (int)device);
  if (found == NULL) return -1;
  *stream = (void*)(uintptr_t)PyLong_AsUnsignedLongLong(found);
  Py_DECREF(found);
  return PyErr_Occurred() ? -1 : 0;
}

PyObject* allocate(int32_t device, size_t bytes, size_t zeroed) {
  return PyObject_CallFunction(allocate_bytes, "inn", (int)device, (Py_ssize_t)bytes, (Py_ssize_t)zeroed);
}

PyObject* empty_like(PyObject* tensor) {
  return PyObject_CallFunctionObjArgs(make_empty_like, tensor, NULL);
}

static void replace(PyObject** hook, PyObject* by) {
  PyObject* old = *hook;
  Py_INCREF(by);
  *hook = by;
  Py_XDECREF(old);
}

PyObject* set_hooks(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (expect_count("set_hooks", count, 4) < 0) return NULL;
  PyObject** const hooks[] = {&describe, &find_stream, &allocate_bytes, &make_empty_like};
  for (int i = 0; i < 4; ++i) replace(hooks[i], args[i]);
  Py_RETURN_NONE;
}
