// Creates a memory pool of the driver, from which streams take memory.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <runtime/device.h>
#include <runtime/device_buffer.h>
#include <runtime/driver.h>
#include <runtime/stream_memory.h>

#include <limits>
#include <new>

namespace fa2 {
namespace {

/// Lets this thread create and destroy pools during a capture. CUDA would otherwise end the capture, although
/// no capture depends on them.
class RelaxedCapture {
 public:
  RelaxedCapture() { exchange(); }
  ~RelaxedCapture() { exchange(); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  void exchange() noexcept {
    warn_unless_ok(driver().thread_exchange_stream_capture_mode(&mode_), "cuThreadExchangeStreamCaptureMode");
  }

  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

bool has_pools(int device) {
  if (device == kInterpreterDevice) return false;
  int supported = 0;
  check(driver().device_get_attribute(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device),
        "cuDeviceGetAttribute");
  return supported != 0;
}

CUmemoryPool create_pool(int device) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  CUmemoryPool pool = nullptr;
  check(driver().mem_pool_create(&pool, &properties), "cuMemPoolCreate");
  return pool;
}

template <class Value>
void set(CUmemoryPool pool, CUmemPool_attribute attribute, Value value) {
  check(driver().mem_pool_set_attribute(pool, attribute, &value), "cuMemPoolSetAttribute");
}

}  // namespace

void StreamMemory::GiveBack::operator()(void* data) const noexcept {
  if (on_host) return ::operator delete(data, kHostAlignment);
  warn_unless_ok(driver().mem_free_async(reinterpret_cast<CUdeviceptr>(data), stream), "cuMemFreeAsync");
}

void ScratchPool::Destroy::operator()(CUmemPoolHandle_st* pool) const noexcept {
  const RelaxedCapture relaxed;
  warn_unless_ok(driver().mem_pool_destroy(pool), "cuMemPoolDestroy");
}

ScratchPool::ScratchPool() : device_(current_device()) {
  if (!has_pools(device_)) return;
  const RelaxedCapture relaxed;
  pool_.reset(create_pool(device_));
  set(pool_.get(), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, std::numeric_limits<cuuint64_t>::max());
  // Otherwise the pool may hand out memory that another stream still uses, and wait for it.
  set(pool_.get(), CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0);
}

StreamMemory ScratchPool::take(std::size_t bytes, Stream stream) const {
  if (bytes == 0) return {nullptr, {}};
  if (device_ == kInterpreterDevice) return {::operator new(bytes, kHostAlignment), {.on_host = true}};
  if (pool_ == nullptr) {
    throw Unavailable(
        fmt::format("device {} ({}) has no memory pools for a workspace: pass AttentionArgs::workspace",
                    device_, device(device_).name));
  }
  CUdeviceptr taken = 0;
  const CUresult result = driver().mem_alloc_from_pool_async(&taken, bytes, pool_.get(), stream);
  if (result != CUDA_SUCCESS)
    throw_cuda_error(result, fmt::format("cuMemAllocFromPoolAsync of {} bytes", bytes));
  return {reinterpret_cast<void*>(taken), {.stream = stream}};
}

}  // namespace fa2
