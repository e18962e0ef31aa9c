// Opens the driver and finds its functions.
#include "driver.h"

#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace example {
void* driver_function(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  void* const function = driver == nullptr ? nullptr : dlsym(driver, name);
  if (function == nullptr) throw std::runtime_error(std::string("the CUDA driver has no ") + name);
  return function;
}

void require_success(const char* name, int result) {
  if (result != 0)
    throw std::runtime_error(std::string(name) + " failed: CUresult " + std::to_string(result));
}

int gpu_count() {
  int count = 0;
  call_driver("cuInit", 0u);
  call_driver("cuDeviceGetCount", &count);
  return count;
}

void use_gpu(int device) {
  int handle = 0;
  void* context = nullptr;
  call_driver("cuInit", 0u);
  call_driver("cuDeviceGet", &handle, device);
  call_driver("cuDevicePrimaryCtxRetain", &context, handle);
  call_driver("cuCtxSetCurrent", context);
}

void use_first_gpu() {
  void* context = nullptr;
  call_driver("cuInit", 0u);
  call_driver("cuCtxGetCurrent", &context);
  if (context == nullptr) use_gpu(0);
}

}  // namespace example
