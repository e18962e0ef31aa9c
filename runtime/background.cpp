// The priority and the capture mode of a background thread.
#include <runtime/background.h>
#include <runtime/device.h>
#include <runtime/driver.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace fa2 {

void work_in_background() {
  constexpr int kNice = 10;
  // A thread's number gives this thread alone the priority. glibc has gettid() from 2.30 on, and the wheel is built for 2.28.
  static_cast<void>(::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNice));
  if (interpreting()) return;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  check(driver().thread_exchange_stream_capture_mode(&mode), "cuThreadExchangeStreamCaptureMode");
}

}  // namespace fa2
