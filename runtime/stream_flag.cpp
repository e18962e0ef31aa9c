// Flags are raised by copies, which reach any memory that is mapped, and which graphs can capture.
#include <runtime/device.h>
#include <runtime/driver.h>
#include <runtime/stream_event.h>
#include <runtime/stream_flag.h>

#include <atomic>

namespace fa2 {

void raise(StreamFlag* flag, const StreamFlag* one, Stream stream) {
  if (interpreting())
    std::atomic_ref(*flag).store(1, std::memory_order_release);
  else
    copy_on_stream(flag, one, sizeof *flag, stream);
}

void await(StreamFlag* flag, Stream stream) {
  const auto address = reinterpret_cast<CUdeviceptr>(flag);
  check(driver().stream_wait_value32(stream, address, 1, CU_STREAM_WAIT_VALUE_EQ), "cuStreamWaitValue32");
  check(driver().stream_write_value32(stream, address, 0, CU_STREAM_WRITE_VALUE_DEFAULT),
        "cuStreamWriteValue32");
}

bool has_come(StreamFlag* flag) {
  StreamFlag expected = 1;
  return std::atomic_ref(*flag).compare_exchange_strong(expected, 0, std::memory_order_acq_rel);
}

}  // namespace fa2
