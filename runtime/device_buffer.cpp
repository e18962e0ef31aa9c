// Owners of device memory, streams and events.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <runtime/device.h>
#include <runtime/device_buffer.h>
#include <runtime/driver.h>

#include <cstring>
#include <utility>

namespace fa2 {
namespace {

CUdeviceptr address(const void* data, std::size_t offset = 0) {
  return reinterpret_cast<CUdeviceptr>(data) + offset;
}

void check_range(const char* what, std::size_t offset, std::size_t bytes, std::size_t size) {
  if (offset <= size && bytes <= size - offset) return;
  throw Error(ErrorCode::internal, fmt::format("{} of {} bytes at offset {} leaves a buffer of {} bytes",
                                               what, bytes, offset, size));
}

CUevent event(void* handle) {
  return static_cast<CUevent>(handle);
}

}  // namespace

DeviceBuffer::DeviceBuffer(std::size_t bytes) : size_(bytes), on_host_(interpreting()) {
  if (bytes == 0) return;
  if (on_host_) {
    data_ = ::operator new(bytes, kHostAlignment);
    return;
  }
  CUdeviceptr allocated = 0;
  const CUresult result = driver().mem_alloc(&allocated, bytes);
  if (result != CUDA_SUCCESS) throw_cuda_error(result, fmt::format("cuMemAlloc of {} bytes", bytes));
  data_ = reinterpret_cast<void*>(allocated);
}

DeviceBuffer::~DeviceBuffer() {
  if (on_host_) ::operator delete(data_, kHostAlignment);
  if (!on_host_ && data_ != nullptr) warn_unless_ok(driver().mem_free(address(data_)), "cuMemFree");
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      on_host_(other.on_host_) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(on_host_, other.on_host_);
  return *this;
}

void DeviceBuffer::fill(std::uint8_t value, Stream stream) {
  if (size_ == 0) return;
  if (on_host_) {
    std::memset(data_, value, size_);
    return;
  }
  check(driver().memset_d8_async(address(data_), value, size_, stream), "cuMemsetD8Async");
}

void DeviceBuffer::upload(const void* host, std::size_t bytes, std::size_t offset, Stream stream) {
  check_range("an upload", offset, bytes, size_);
  if (bytes == 0) return;
  if (on_host_) {
    std::memcpy(static_cast<std::byte*>(data_) + offset, host, bytes);
    return;
  }
  check(driver().memcpy_async(address(data_, offset), address(host), bytes, stream), "cuMemcpyAsync");
  check(driver().stream_synchronize(stream), "cuStreamSynchronize");
}

void DeviceBuffer::download(void* host, std::size_t bytes, std::size_t offset, Stream stream) const {
  check_range("a download", offset, bytes, size_);
  if (bytes == 0) return;
  if (on_host_) {
    std::memcpy(host, static_cast<const std::byte*>(data_) + offset, bytes);
    return;
  }
  copy_to_host(host, static_cast<const std::byte*>(data_) + offset, bytes, stream);
}

void copy_to_host(void* host, const void* data, std::size_t bytes, Stream stream) {
  // cuMemcpyDtoH rejects managed and pinned memory.
  check(driver().memcpy_async(address(host), address(data), bytes, stream), "cuMemcpyAsync");
  check(driver().stream_synchronize(stream), "cuStreamSynchronize");
}

OwnedStream::OwnedStream() {
  if (interpreting()) return;
  int least = 0, greatest = 0;
  check(driver().ctx_get_stream_priority_range(&least, &greatest), "cuCtxGetStreamPriorityRange");
  check(driver().stream_create_with_priority(&stream_, CU_STREAM_NON_BLOCKING, greatest),
        "cuStreamCreateWithPriority");
}

OwnedStream::~OwnedStream() {
  if (stream_ == nullptr) return;
  warn_unless_ok(driver().stream_destroy(stream_), "cuStreamDestroy");
}

void OwnedStream::synchronize() const {
  if (stream_ == nullptr) return;
  check(driver().stream_synchronize(stream_), "cuStreamSynchronize");
}

bool OwnedStream::is_idle() const {
  if (stream_ == nullptr) return true;
  const CUresult result = driver().stream_query(stream_);
  if (result != CUDA_ERROR_NOT_READY) check(result, "cuStreamQuery");
  return result == CUDA_SUCCESS;
}

StreamTimer::StreamTimer() {
  if (interpreting()) return;
  CUevent start = nullptr;
  CUevent stop = nullptr;
  check(driver().event_create(&start, CU_EVENT_DEFAULT), "cuEventCreate");
  start_ = start;
  const CUresult result = driver().event_create(&stop, CU_EVENT_DEFAULT);
  if (result != CUDA_SUCCESS) driver().event_destroy(start);
  check(result, "cuEventCreate");
  stop_ = stop;
}

StreamTimer::~StreamTimer() {
  if (start_ == nullptr) return;
  warn_unless_ok(driver().event_destroy(event(start_)), "cuEventDestroy");
  warn_unless_ok(driver().event_destroy(event(stop_)), "cuEventDestroy");
}

void StreamTimer::start(Stream stream) {
  host_start_ = std::chrono::steady_clock::now();
  if (start_ == nullptr) return;
  check(driver().event_record(event(start_), stream), "cuEventRecord");
}

void StreamTimer::stop(Stream stream) {
  host_stop_ = std::chrono::steady_clock::now();
  if (start_ == nullptr) return;
  check(driver().event_record(event(stop_), stream), "cuEventRecord");
}

double StreamTimer::elapsed_ms() const {
  if (start_ == nullptr) return std::chrono::duration<double, std::milli>(host_stop_ - host_start_).count();
  check(driver().event_synchronize(event(stop_)), "cuEventSynchronize");
  float milliseconds = 0;
  check(driver().event_elapsed_time(&milliseconds, event(start_), event(stop_)), "cuEventElapsedTime");
  return milliseconds;
}

}  // namespace fa2
