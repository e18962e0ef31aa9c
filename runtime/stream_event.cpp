// Events without timing, which are cheaper.
#include <runtime/device.h>
#include <runtime/driver.h>
#include <runtime/stream_event.h>

#include <cstring>

namespace fa2 {

StreamEvent::StreamEvent() {
  if (interpreting()) return;
  CUevent event = nullptr;
  check(driver().event_create(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  event_ = event;
}

StreamEvent::~StreamEvent() {
  if (event_ != nullptr)
    warn_unless_ok(driver().event_destroy(static_cast<CUevent>(event_)), "cuEventDestroy");
}

void StreamEvent::record(Stream stream) {
  if (event_ != nullptr) check(driver().event_record(static_cast<CUevent>(event_), stream), "cuEventRecord");
}

void StreamEvent::hold(Stream stream) const {
  if (event_ == nullptr) return;
  check(driver().stream_wait_event(stream, static_cast<CUevent>(event_), CU_EVENT_WAIT_DEFAULT),
        "cuStreamWaitEvent");
}

bool StreamEvent::has_passed() const {
  if (event_ == nullptr) return true;
  const CUresult result = driver().event_query(static_cast<CUevent>(event_));
  if (result != CUDA_ERROR_NOT_READY) check(result, "cuEventQuery");
  return result == CUDA_SUCCESS;
}

void copy_on_stream(void* to, const void* from, std::size_t bytes, Stream stream) {
  if (bytes == 0) return;
  if (interpreting()) {
    std::memmove(to, from, bytes);
    return;
  }
  check(driver().memcpy_async(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes,
                              stream),
        "cuMemcpyAsync");
}

void copy_on_stream(const CopiedRows& copy, Stream stream) {
  if (copy.rows == 1 || copy.bytes == 0) return copy_on_stream(copy.to, copy.from, copy.bytes, stream);
  if (interpreting()) {
    for (std::int64_t row = 0; row < copy.rows; ++row)
      std::memmove(copy.to + row * copy.to_pitch, copy.from + row * copy.from_pitch, copy.bytes);
    return;
  }
  CUDA_MEMCPY2D of{};
  of.srcMemoryType = of.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  of.srcDevice = reinterpret_cast<CUdeviceptr>(copy.from),
  of.srcPitch = static_cast<std::size_t>(copy.from_pitch);
  of.dstDevice = reinterpret_cast<CUdeviceptr>(copy.to),
  of.dstPitch = static_cast<std::size_t>(copy.to_pitch);
  of.WidthInBytes = copy.bytes, of.Height = static_cast<std::size_t>(copy.rows);
  check(driver().memcpy_2d_async(&of, stream), "cuMemcpy2DAsync");
}

}  // namespace fa2
