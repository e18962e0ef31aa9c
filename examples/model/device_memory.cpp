// Calls the few functions of the driver that copies need.
#include "device_memory.h"

#include <cstring>
#include <stdexcept>
#include <string>

#include "driver.h"

namespace example {
namespace {

using Address = unsigned long long;  // CUdeviceptr

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
  use_first_gpu();
  Address address = 0;
  call_driver("cuMemAlloc_v2", &address, bytes);
  address_ = reinterpret_cast<void*>(address);
}

DeviceMemory::~DeviceMemory() {
  if (!on_gpu_) return;
  try {
    call_driver("cuMemFree_v2", address_of(address_));
  } catch (const std::runtime_error&) {  // a destructor cannot report it
  }
}

void DeviceMemory::upload(const void* host, std::size_t bytes) {
  require(bytes);
  on_gpu_ ? call_driver("cuMemcpyHtoD_v2", address_of(address_), host, bytes)
          : static_cast<void>(std::memcpy(address_, host, bytes));
}

void DeviceMemory::download(void* host, std::size_t bytes) const {
  require(bytes);
  on_gpu_ ? call_driver("cuMemcpyDtoH_v2", host, address_of(address_), bytes)
          : static_cast<void>(std::memcpy(host, address_, bytes));
}

void DeviceMemory::require(std::size_t bytes) const {
  if (bytes > bytes_)
    throw std::runtime_error("copying " + std::to_string(bytes) + " bytes, where device memory has " +
                             std::to_string(bytes_));
}

}  // namespace example
