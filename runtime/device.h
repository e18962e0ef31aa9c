// The properties of GPUs that fa2 uses, and CUDA contexts.
#pragma once

#include <core/arch.h>
#include <fa2/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace fa2 {

struct Device {
  int ordinal = 0;
  std::string name;  ///< "NVIDIA H100 80GB HBM3"
  int major = 0;
  int minor = 0;
  int sm_count = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bytes = 0;
  Arch arch;  ///< arch that kernels are compiled for
};

/// Returns the number of GPUs; 0 without a driver.
int device_count();

/// Returns a device's properties, cached after the first call. kInterpreterDevice always exists. @throws
/// Unavailable (no driver, no such device, or an unknown arch).
const Device& device(int ordinal);

/// Returns the device of the calling thread's current context, or 0 without one. Returns kInterpreterDevice
/// instead inside its ScopedContext, with FA2_DEVICE=interpreter, and without a GPU, which the log says once.
/// @throws InvalidRequest if FA2_DEVICE is neither auto nor interpreter.
int current_device();

/// Returns whether current_device() is kInterpreterDevice. After the first call it does not ask the driver.
bool interpreting();

/// Makes a context of device `ordinal` current for its lifetime. It keeps the current context if that belongs
/// to the device, else uses the primary context, which is retained and never reset. Takes no lock.
/// For kInterpreterDevice it makes this the thread's current device, whose DeviceBuffers are host memory.
class ScopedContext {
 public:
  explicit ScopedContext(int ordinal);
  ~ScopedContext();
  ScopedContext(const ScopedContext&) = delete;
  ScopedContext& operator=(const ScopedContext&) = delete;

 private:
  bool pushed_ = false;
  bool interpreting_ = false;
};

/// Returns whether a stream is being captured.
bool is_capturing(Stream stream);

/// The kind of memory at an address, according to the driver. Unknown host memory is `unregistered`.
enum class PointerKind : std::uint8_t { device, managed, pinned_host, unregistered };
struct PointerFacts {
  PointerKind kind = PointerKind::unregistered;
  int device = -1;
};
PointerFacts pointer_facts(const void* pointer);

/// Returns the driver's CUDA version, "13.0"; empty without a driver.
std::string driver_version();

}  // namespace fa2
