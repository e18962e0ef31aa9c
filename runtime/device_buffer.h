// Device memory, streams and events as values, for the tuner, the tools and the tests. On the interpreter
// they are host memory, no stream, and the clock.
#pragma once

#include <fa2/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>

namespace fa2 {

/// Alignment of host memory that replaces device memory; bytes; that of a GPU.
inline constexpr std::align_val_t kHostAlignment{256};

/// Owns device memory in the current context.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;

  void* data() const { return data_; }
  std::size_t size() const { return size_; }
  void fill(std::uint8_t value, Stream stream = nullptr);
  /// Both follow the work on `stream` (nullptr: the default one), and are complete on return. Other streams that use the buffer must
  /// be synchronised.
  void upload(const void* host, std::size_t bytes, std::size_t offset = 0, Stream stream = nullptr);
  void download(void* host, std::size_t bytes, std::size_t offset = 0, Stream stream = nullptr) const;

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
  bool on_host_ = false;
};

/// Copies device memory to the host after the work on `stream`, and waits for it. A buffer need not own the
/// memory. Not for the interpreter, whose memory is the host's.
void copy_to_host(void* host, const void* data, std::size_t bytes, Stream stream);

/// A non-blocking stream of the current context, with the highest priority: its blocks come before those that kernels of other
/// streams have not started.
class OwnedStream {
 public:
  OwnedStream();
  ~OwnedStream();
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  Stream get() const { return stream_; }
  void synchronize() const;
  /// Returns whether all work on the stream has ended. Does not wait. @throws CudaError if the work failed.
  bool is_idle() const;

 private:
  Stream stream_ = nullptr;
};

/// Measures the time between two events on a stream.
class StreamTimer {
 public:
  StreamTimer();
  ~StreamTimer();
  StreamTimer(const StreamTimer&) = delete;
  StreamTimer& operator=(const StreamTimer&) = delete;
  void start(Stream stream);
  void stop(Stream stream);
  /// Waits for stop(). Returns milliseconds.
  double elapsed_ms() const;

 private:
  void* start_ = nullptr;  ///< null on the interpreter
  void* stop_ = nullptr;
  std::chrono::steady_clock::time_point host_start_, host_stop_;
};

}  // namespace fa2
