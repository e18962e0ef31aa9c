// Asks the CUDA driver about devices, contexts and pointers. A CUdevice is its ordinal, as in the CUDA
// runtime.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <runtime/device.h>
#include <runtime/driver.h>
#include <runtime/env.h>
#include <runtime/log.h>

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace fa2 {
namespace {

int attribute(CUdevice device, CUdevice_attribute name) {
  int value = 0;
  check(driver().device_get_attribute(&value, name, device), "cuDeviceGetAttribute");
  return value;
}

Device describe(int ordinal) {
  const int count = device_count();
  if (ordinal < 0 || ordinal >= count) {
    throw Unavailable(
        fmt::format("device = {}, must be below {}, the number of CUDA devices that the driver shows: see "
                    "CUDA_VISIBLE_DEVICES",
                    ordinal, count));
  }
  CUdevice handle = 0;
  check(driver().device_get(&handle, ordinal), "cuDeviceGet");
  std::array<char, 256> name{};
  check(driver().device_get_name(name.data(), static_cast<int>(name.size()), handle), "cuDeviceGetName");
  std::size_t memory = 0;
  check(driver().device_total_mem(&memory, handle), "cuDeviceTotalMem");

  Device device;
  device.ordinal = ordinal;
  device.name = name.data();
  device.major = attribute(handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  device.minor = attribute(handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  device.sm_count = attribute(handle, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  device.l2_bytes = attribute(handle, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  device.memory_bytes = static_cast<std::int64_t>(memory);
  const Arch* arch = arch_for_device(device.major, device.minor);
  if (arch == nullptr) {
    throw Unavailable(fmt::format("device {} ({}) has compute capability {}.{}; fa2 has kernels for {}",
                                  ordinal, device.name, device.major, device.minor, known_arch_names()));
  }
  device.arch = *arch;
  return device;
}

thread_local int interpreter_scopes = 0;

Device describe_interpreter() {
  Device device;
  device.ordinal = kInterpreterDevice;
  device.name = "CPU interpreter";
  device.sm_count = 2;  // few, so that persistent blocks take many tiles of a small problem on every machine
  device.arch = interpreter_arch();
  return device;
}

/// Returns whether the whole process interprets kernels by default.
bool interpreter_is_default() {
  if (checked_env("FA2_DEVICE") == "interpreter") return true;
  if (device_count() > 0) return false;
  log().warn("no GPU was found: kernels are interpreted on the CPU, thread by thread, checked and slow");
  return true;
}

CUcontext retain_primary_context(int ordinal) {
  CUcontext context = nullptr;
  check(driver().primary_ctx_retain(&context, ordinal), "cuDevicePrimaryCtxRetain");
  return context;
}

/// Returns the primary context. Threads that need it first at the same time each retain it, which does no
/// harm.
CUcontext primary_context(int ordinal) {
  static auto& contexts = *new std::vector<std::atomic<CUcontext>>(static_cast<std::size_t>(device_count()));
  const auto index = static_cast<std::size_t>(ordinal);
  if (index >= contexts.size()) return retain_primary_context(ordinal);  // this throws
  CUcontext known = contexts[index].load(std::memory_order_acquire);
  if (known == nullptr) {
    known = retain_primary_context(ordinal);
    contexts[index].store(known, std::memory_order_release);
  }
  return known;
}

/// Returns the device of the calling thread's current context; nullopt without one.
std::optional<int> device_of_context() {
  CUdevice current = 0;
  const CUresult result = driver().ctx_get_device(&current);
  if (result == CUDA_ERROR_INVALID_CONTEXT) return std::nullopt;
  check(result, "cuCtxGetDevice");
  return current;
}

}  // namespace

int device_count() {
  try {
    int count = 0;
    return driver().device_get_count(&count) == CUDA_SUCCESS ? count : 0;
  } catch (const Unavailable&) {
    return 0;
  }
}

const Device& device(int ordinal) {
  static const Device& interpreter = *new Device(describe_interpreter());
  if (ordinal == kInterpreterDevice) return interpreter;
  static std::mutex mutex;
  static auto& devices = *new std::map<int, Device>;
  const std::lock_guard lock(mutex);
  const auto known = devices.find(ordinal);
  if (known != devices.end()) return known->second;
  driver();  // "no driver" says more than "no device"
  return devices.emplace(ordinal, describe(ordinal)).first->second;
}

bool interpreting() {
  if (interpreter_scopes > 0) return true;
  static const bool by_default = interpreter_is_default();
  return by_default;
}

int current_device() {
  return interpreting() ? kInterpreterDevice : device_of_context().value_or(0);
}

ScopedContext::ScopedContext(int ordinal) : interpreting_(ordinal == kInterpreterDevice) {
  if (interpreting_) {
    ++interpreter_scopes;
    return;
  }
  if (device_of_context() == ordinal) return;
  check(driver().ctx_push_current(primary_context(ordinal)), "cuCtxPushCurrent");
  pushed_ = true;
}

ScopedContext::~ScopedContext() {
  if (interpreting_) --interpreter_scopes;
  CUcontext popped = nullptr;
  if (pushed_) warn_unless_ok(driver().ctx_pop_current(&popped), "cuCtxPopCurrent");
}

bool is_capturing(Stream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = driver().stream_is_capturing(stream, &status);
  // The legacy default stream, while a stream that synchronises with it is capturing.
  if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return true;
  // The default stream of a thread without a context.
  if (result == CUDA_ERROR_INVALID_CONTEXT && stream == nullptr) return false;
  check(result, "cuStreamIsCapturing");
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

PointerFacts pointer_facts(const void* pointer) {
  unsigned int type = 0;
  int ordinal = -1;
  unsigned int managed = 0;
  CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                 CU_POINTER_ATTRIBUTE_IS_MANAGED};
  void* values[] = {&type, &ordinal, &managed};
  const CUresult result =
      driver().pointer_get_attributes(3, names, values, reinterpret_cast<CUdeviceptr>(pointer));
  if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_INVALID_CONTEXT) return {};
  check(result, "cuPointerGetAttributes");
  if (managed != 0) return {PointerKind::managed, ordinal};
  if (type == CU_MEMORYTYPE_DEVICE) return {PointerKind::device, ordinal};
  if (type == CU_MEMORYTYPE_HOST) return {PointerKind::pinned_host, ordinal};
  return {};
}

std::string driver_version() {
  try {
    const int version = uninitialized_driver().version;
    return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  } catch (const Unavailable&) {
    return {};
  }
}

}  // namespace fa2
