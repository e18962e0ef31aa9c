#include <runtime/device.h>
#include <runtime/driver.h>
#include <runtime/fill.h>

#include <bit>
#include <cstdint>
#include <cstring>

namespace fa2 {

void fill_zeros(void* data, std::size_t bytes, Stream stream) {
  if (bytes == 0) return;
  if (interpreting()) {
    std::memset(data, 0, bytes);
    return;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  check(driver().memset_d8_async(address, 0, bytes, stream), "cuMemsetD8Async");
}

void fill(float* data, std::size_t count, float value, Stream stream) {
  if (count == 0) return;
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  check(driver().memset_d32_async(address, std::bit_cast<std::uint32_t>(value), count, stream),
        "cuMemsetD32Async");
}

}  // namespace fa2
