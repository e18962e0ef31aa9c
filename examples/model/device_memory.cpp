// Calls the few functions of the driver that copies need.
#include "device_memory.h"

#include <dlfcn.h>

#include <cstring>
#include <stdexcept>
#include <string>

namespace example {
namespace {

using Address = unsigned long long;  // CUdeviceptr

/// Calls the driver's function `name`.
template <class... Arguments>
void call(const char* name, Arguments... arguments) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  void* const function = driver == nullptr ? nullptr : dlsym(driver, name);
  if (function == nullptr) throw std::runtime_error(std::string("the CUDA driver has no ") + name);
  const int result = reinterpret_cast<int (*)(Arguments...)>(function)(arguments...);
  if (result != 0)
    throw std::runtime_error(std::string(name) + " failed: CUresult " + std::to_string(result));
}

/// Makes device 0's primary context current, which fa2 uses if none is.
void make_context_current() {
  int device = 0;
  void* context = nullptr;
  call("cuInit", 0u);
  call("cuDeviceGet", &device, 0);
  call("cuDevicePrimaryCtxRetain", &context, device);
  call("cuCtxSetCurrent", context);
}

Address address_of(void* pointer) {
  return reinterpret_cast<Address>(pointer);
}

}  // namespace

DeviceMemory::DeviceMemory(std::size_t bytes, bool on_gpu) : bytes_(bytes), on_gpu_(on_gpu) {
  if (!on_gpu) {
    host_.resize(bytes);
    address_ = host_.data();
    return;
  }
  static const bool is_current = (make_context_current(), true);
  static_cast<void>(is_current);
  Address address = 0;
  call("cuMemAlloc_v2", &address, bytes);
  address_ = reinterpret_cast<void*>(address);
}

DeviceMemory::~DeviceMemory() {
  if (!on_gpu_) return;
  try {
    call("cuMemFree_v2", address_of(address_));
  } catch (const std::runtime_error&) {  // a destructor cannot report it
  }
}

void DeviceMemory::upload(const void* host, std::size_t bytes) {
  require(bytes);
  on_gpu_ ? call("cuMemcpyHtoD_v2", address_of(address_), host, bytes)
          : static_cast<void>(std::memcpy(address_, host, bytes));
}

void DeviceMemory::download(void* host, std::size_t bytes) const {
  require(bytes);
  on_gpu_ ? call("cuMemcpyDtoH_v2", host, address_of(address_), bytes)
          : static_cast<void>(std::memcpy(host, address_, bytes));
}

void DeviceMemory::require(std::size_t bytes) const {
  if (bytes > bytes_)
    throw std::runtime_error("copying " + std::to_string(bytes) + " bytes, where device memory has " +
                             std::to_string(bytes_));
}

}  // namespace example
