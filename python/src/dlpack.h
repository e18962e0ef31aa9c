/* The part of DLPack 1.3 (github.com/dmlc/dlpack, Apache License 2.0) that fa2 reads: a tensor, and the table of functions
 * that reads a type's tensors without a Python call. Layouts are DLPack's. Functions that fa2 does not call are void*. */
#ifndef FA2_PYTHON_DLPACK_H
#define FA2_PYTHON_DLPACK_H

#include <stdint.h>

enum { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLCUDAManaged = 13 };

typedef struct {
  int32_t device_type;
  int32_t device_id;
} DLDevice;

typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;

typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides; /* in elements; NULL: contiguous */
  uint64_t byte_offset;
} DLTensor;

typedef struct DLPackExchangeAPIHeader {
  struct {
    uint32_t major, minor;
  } version;
  struct DLPackExchangeAPIHeader* prev_api;
} DLPackExchangeAPIHeader;

typedef struct {
  DLPackExchangeAPIHeader header;
  void* managed_tensor_allocator;
  void* managed_tensor_from_py_object_no_sync;
  void* managed_tensor_to_py_object_no_sync;
  int (*dltensor_from_py_object_no_sync)(void* py_object, DLTensor* out); /* may be NULL */
  int (*current_work_stream)(int32_t device_type, int32_t device_id, void** stream);
} DLPackExchangeAPI;

#endif
