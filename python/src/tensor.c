/* Reads tensors by the DLPack exchange API of their type, which costs no Python call, else by fa2._hooks.describe(). */
#include "core.h"
#include "dlpack.h"

/* The most recent types and their tables; NULL: a type without a table. The GIL guards them. */
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
  Py_DECREF(capsule); /* which owns no table: that lives as long as the type */
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

/* DLPack's code and bits of each element type. */
static const struct {
  uint8_t code, bits;
  int32_t dtype;
} element_types[] = {
    /* clang-format off */
    /* written: element types */
    {2, 16, FA2_F16},
    {4, 16, FA2_BF16},
    {2, 32, FA2_FLOAT32},
    {0, 32, FA2_INT32},
    {0, 64, FA2_INT64},
    {1, 8, FA2_UINT8},
    {10, 8, FA2_FLOAT8_E4M3FN},
    /* end of element types */
    /* clang-format on */
};

static int32_t dtype_of(DLDataType type) {
  if (type.lanes != 1) return FA2_OTHER_DTYPE;
  for (size_t i = 0; i < sizeof element_types / sizeof element_types[0]; ++i)
    if (element_types[i].code == type.code && element_types[i].bits == type.bits)
      return element_types[i].dtype;
  return FA2_OTHER_DTYPE;
}

static int32_t device_of(DLDevice device) {
  switch (device.device_type) {
    case kDLCPU:
    case kDLCUDAHost:
      return FA2_INTERPRETER_DEVICE;
    case kDLCUDA:
    case kDLCUDAManaged:
      return device.device_id;
    default:
      return FA2_OTHER_DEVICE;
  }
}

static void from_dltensor(const DLTensor* given, fa2_array* tensor) {
  tensor->data = (char*)given->data + given->byte_offset;
  tensor->dtype = dtype_of(given->dtype);
  tensor->device = device_of(given->device);
  tensor->ndim = given->ndim;
  tensor->flags = 0;
  if (given->ndim > FA2_MOST_DIMENSIONS) return;
  int64_t contiguous = 1;
  for (int i = given->ndim - 1; i >= 0; --i) {
    tensor->shape[i] = given->shape[i];
    tensor->strides[i] = given->strides != NULL ? given->strides[i] : contiguous;
    contiguous *= given->shape[i];
  }
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

static int from_description(PyObject* object, fa2_array* tensor) {
  PyObject* all = describe(object);
  if (all == NULL) return -1;
  unsigned long long data = 0;
  PyObject *shape = NULL, *strides = NULL;
  int dtype = 0, device = 0, read_only = 0, result = -1;
  if (PyArg_ParseTuple(all, "KOOiip", &data, &shape, &strides, &dtype, &device, &read_only)) {
    tensor->data = (void*)(uintptr_t)data;
    tensor->dtype = dtype;
    tensor->device = device;
    tensor->ndim = (int32_t)PySequence_Size(shape);
    tensor->flags = read_only ? FA2_READ_ONLY : 0;
    if (tensor->ndim > FA2_MOST_DIMENSIONS) {
      result = 0;
    } else if (tensor->ndim >= 0 && read_numbers(shape, tensor->ndim, tensor->shape) == 0) {
      result = read_numbers(strides, tensor->ndim, tensor->strides);
    }
  }
  Py_DECREF(all);
  return result;
}

int read_tensor(PyObject* object, fa2_array* tensor) {
  const DLPackExchangeAPI* api = api_of(Py_TYPE(object));
  DLTensor given;
  if (api == NULL || api->dltensor_from_py_object_no_sync(object, &given) != 0) {
    PyErr_Clear(); /* as for a meta tensor, which DLPack cannot express: describe() can */
    return from_description(object, tensor);
  }
  from_dltensor(&given, tensor);
  return 0;
}

int read_tensors(PyObject* const* objects, int count, fa2_array* tensors, const fa2_array** given) {
  for (int i = 0; i < count; ++i) {
    given[i] = NULL;
    if (objects[i] == Py_None) continue;
    if (read_tensor(objects[i], &tensors[i]) < 0) return -1;
    given[i] = &tensors[i];
  }
  return 0;
}

bool has_exchange_api(PyObject* object) {
  return api_of(Py_TYPE(object)) != NULL;
}

int current_stream(PyObject* object, int32_t device, void** stream) {
  *stream = NULL;
  if (device == FA2_INTERPRETER_DEVICE) return 0;
  const DLPackExchangeAPI* api = api_of(Py_TYPE(object));
  if (api != NULL) {
    if (api->current_work_stream(kDLCUDA, device, stream) == 0) return 0;
    return PyErr_Occurred() ? -1 : invalid("device = cuda:%d, must have a current stream", device);
  }
  PyObject* found = find_stream(device);
  if (found == NULL) return -1;
  *stream = (void*)(uintptr_t)PyLong_AsUnsignedLongLong(found);
  Py_DECREF(found);
  return PyErr_Occurred() ? -1 : 0;
}
