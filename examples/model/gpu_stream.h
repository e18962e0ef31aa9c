// A CUDA stream, and graphs captured on it, by the driver.
#pragma once

#include <fa2/types.h>

#include <functional>

namespace example {

using Launches = std::function<void()>;

/// A stream of the first GPU, or nothing on the interpreter, which computes at once.
class GpuStream {
 public:
  /// @throws std::runtime_error that names the driver's function that failed, like all members.
  explicit GpuStream(bool on_gpu);
  ~GpuStream();
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;

  /// Returns the stream; null on the interpreter.
  fa2::Stream get() const { return stream_; }
  /// Calls `launches`, waits for the device, and returns the time from their first kernel to the end of their last one; ms. On the
  /// interpreter it is the time of the call.
  double timed(const Launches& launches) const;

 private:
  fa2::Stream stream_ = nullptr;
  void* begin_ = nullptr;  ///< events
  void* end_ = nullptr;
};

/// An executable CUDA graph.
class StepGraph {
 public:
  /// Captures what `launches` enqueues on the stream. They do not run.
  StepGraph(const GpuStream& stream, const Launches& launches);
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  void launch(const GpuStream& stream) const;

 private:
  void* graph_ = nullptr;
  void* executable_ = nullptr;
};

}  // namespace example
