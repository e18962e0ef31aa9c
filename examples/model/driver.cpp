// Opens the driver and finds its functions.
#include "driver.h"

#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace example {
namespace {

void make_context_current() {
  int device = 0;
  void* context = nullptr;
  call_driver("cuInit", 0u);
  call_driver("cuDeviceGet", &device, 0);
  call_driver("cuDevicePrimaryCtxRetain", &context, device);
  call_driver("cuCtxSetCurrent", context);
}

}  // namespace

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

void use_first_gpu() {
  static const bool is_current = (make_context_current(), true);
  static_cast<void>(is_current);
}

}  // namespace example
