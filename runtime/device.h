// What fa2 needs to know of a GPU, and its context.
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
  Arch arch;  ///< the row its kernels are compiled for
};

/// GPUs; 0 if there is no driver.
int device_count();

/// Cached after the first call; kInterpreterDevice is always there. @throws Unavailable (no driver, no such
/// device, an arch fa2 does not know).
const Device& device(int ordinal);

/// kInterpreterDevice inside a ScopedContext of it, with FA2_DEVICE=interpreter, and where there is no GPU
/// (which the log says once). Else the device of the calling thread's current context; 0 if none is current.
/// @throws InvalidRequest if FA2_DEVICE is neither auto nor interpreter.
int current_device();

/// Whether that is kInterpreterDevice; asks the driver for nothing, once it is known whether there is a GPU.
bool interpreting();

/// Makes a context of `ordinal` current for its lifetime: the current one if it already belongs to that
/// device, else the primary context (retained for good, never reset). Takes no lock. For kInterpreterDevice:
/// makes it the thread's current device, whose DeviceBuffers are host memory.
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

/// Of a CUDA stream.
bool is_capturing(Stream stream);

/// What the driver knows of an address. Unknown host memory has kind `unregistered`.
enum class PointerKind : std::uint8_t { device, managed, pinned_host, unregistered };
struct PointerFacts {
  PointerKind kind = PointerKind::unregistered;
  int device = -1;
};
PointerFacts pointer_facts(const void* pointer);

/// Driver version as "13.0"; empty if there is no driver.
std::string driver_version();

}  // namespace fa2
