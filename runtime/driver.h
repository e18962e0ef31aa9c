// The CUDA driver, opened at run time: a table of its functions, and its errors as exceptions.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include <string>

/// X(field, driver function, CUDA version of its signature). CUDA 12.0 has all of them.
#define FA2_DRIVER_FUNCTIONS(X)                                                    \
  X(get_error_name, cuGetErrorName, 6000)                                          \
  X(get_error_string, cuGetErrorString, 6000)                                      \
  X(init, cuInit, 2000)                                                            \
  X(device_get, cuDeviceGet, 2000)                                                 \
  X(device_get_count, cuDeviceGetCount, 2000)                                      \
  X(device_get_name, cuDeviceGetName, 2000)                                        \
  X(device_get_attribute, cuDeviceGetAttribute, 2000)                              \
  X(device_total_mem, cuDeviceTotalMem, 3020)                                      \
  X(primary_ctx_retain, cuDevicePrimaryCtxRetain, 7000)                            \
  X(ctx_get_current, cuCtxGetCurrent, 4000)                                        \
  X(ctx_push_current, cuCtxPushCurrent, 4000)                                      \
  X(ctx_pop_current, cuCtxPopCurrent, 4000)                                        \
  X(ctx_get_device, cuCtxGetDevice, 2000)                                          \
  X(pointer_get_attributes, cuPointerGetAttributes, 7000)                          \
  X(mem_alloc, cuMemAlloc, 3020)                                                   \
  X(mem_free, cuMemFree, 3020)                                                     \
  X(ipc_get_mem_handle, cuIpcGetMemHandle, 4010)                                   \
  X(ipc_open_mem_handle, cuIpcOpenMemHandle, 11000)                                \
  X(ipc_close_mem_handle, cuIpcCloseMemHandle, 4010)                               \
  X(mem_pool_create, cuMemPoolCreate, 11020)                                       \
  X(mem_pool_destroy, cuMemPoolDestroy, 11020)                                     \
  X(mem_pool_set_attribute, cuMemPoolSetAttribute, 11020)                          \
  X(mem_alloc_from_pool_async, cuMemAllocFromPoolAsync, 11020)                     \
  X(mem_free_async, cuMemFreeAsync, 11020)                                         \
  X(memcpy_dtoh, cuMemcpyDtoH, 3020)                                               \
  X(memcpy_async, cuMemcpyAsync, 4000)                                             \
  X(memcpy_2d_async, cuMemcpy2DAsync, 3020)                                        \
  X(memset_d8_async, cuMemsetD8Async, 3020)                                        \
  X(memset_d32_async, cuMemsetD32Async, 3020)                                      \
  X(ctx_get_stream_priority_range, cuCtxGetStreamPriorityRange, 5050)              \
  X(stream_create_with_priority, cuStreamCreateWithPriority, 5050)                 \
  X(stream_destroy, cuStreamDestroy, 4000)                                         \
  X(stream_synchronize, cuStreamSynchronize, 2000)                                 \
  X(stream_query, cuStreamQuery, 2000)                                             \
  X(stream_wait_event, cuStreamWaitEvent, 3020)                                    \
  X(stream_wait_value32, cuStreamWaitValue32, 11070)                               \
  X(stream_write_value32, cuStreamWriteValue32, 11070)                             \
  X(stream_is_capturing, cuStreamIsCapturing, 10000)                               \
  X(stream_get_capture_info, cuStreamGetCaptureInfo, 11030)                        \
  X(thread_exchange_stream_capture_mode, cuThreadExchangeStreamCaptureMode, 10010) \
  X(user_object_create, cuUserObjectCreate, 11030)                                 \
  X(user_object_release, cuUserObjectRelease, 11030)                               \
  X(graph_retain_user_object, cuGraphRetainUserObject, 11030)                      \
  X(event_create, cuEventCreate, 2000)                                             \
  X(event_destroy, cuEventDestroy, 4000)                                           \
  X(event_record, cuEventRecord, 2000)                                             \
  X(event_query, cuEventQuery, 2000)                                               \
  X(event_synchronize, cuEventSynchronize, 2000)                                   \
  X(event_elapsed_time, cuEventElapsedTime, 2000)                                  \
  X(library_load_data, cuLibraryLoadData, 12000)                                   \
  X(library_unload, cuLibraryUnload, 12000)                                        \
  X(library_get_kernel, cuLibraryGetKernel, 12000)                                 \
  X(kernel_get_function, cuKernelGetFunction, 12000)                               \
  X(kernel_set_attribute, cuKernelSetAttribute, 12000)                             \
  X(func_get_attribute, cuFuncGetAttribute, 2020)                                  \
  X(tensor_map_encode_tiled, cuTensorMapEncodeTiled, 12000)                        \
  X(launch_kernel_ex, cuLaunchKernelEx, 11060)

namespace fa2 {

/// Immutable once opened; every field is set.
struct Driver {
#define FA2_FIELD(field, name, cuda_version) PFN_##name##_v##cuda_version field = nullptr;
  FA2_DRIVER_FUNCTIONS(FA2_FIELD)
#undef FA2_FIELD
  int version = 0;  ///< 1000 * major + 10 * minor
};

/// Returns the driver, opened and initialised (cuInit) once per process. After a failure the next call tries
/// again.
/// @throws Unavailable if there is no driver, it is older than CUDA 12.0, or cuInit fails, for example
/// without a GPU.
const Driver& driver();

/// Returns the same table before cuInit, which needs no GPU. @throws Unavailable.
const Driver& uninitialized_driver();

/// Returns a driver function by its base name ("cuMemAlloc") and the CUDA version of its signature.
/// @throws Unavailable.
void* driver_function(const char* name, int cuda_version);

/// @throws CudaError always: "<what>: CUDA_ERROR_INVALID_VALUE (1): invalid argument".
[[noreturn]] void throw_cuda_error(CUresult result, const std::string& what);

/// @throws CudaError unless the call succeeded. `call`: the driver function's name.
inline void check(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS) throw_cuda_error(result, call);
}

/// Logs a failure, except that of a driver already shut down at process exit. For destructors.
void warn_unless_ok(CUresult result, const char* call) noexcept;

}  // namespace fa2
