// Calls the driver's streams, events and graphs.
#include "gpu_stream.h"

#include <chrono>
#include <stdexcept>

#include "driver.h"

namespace example {
namespace {

/// Calls the driver in a destructor, which cannot report a failure.
void release(const char* name, void* handle) {
  if (handle == nullptr) return;
  try {
    call_driver(name, handle);
  } catch (const std::runtime_error&) {
  }
}

/// Ends a capture and returns its graph.
void* end_capture(fa2::Stream stream) {
  void* graph = nullptr;
  call_driver("cuStreamEndCapture", stream, &graph);
  return graph;
}

/// Ends a capture during which a launch failed, which is the failure to report.
void abandon_capture(fa2::Stream stream) {
  try {
    release("cuGraphDestroy", end_capture(stream));
  } catch (const std::runtime_error&) {
  }
}

}  // namespace

GpuStream::GpuStream(bool on_gpu) {
  if (!on_gpu) return;
  constexpr unsigned kWaitsForCopies = 0;  // CU_STREAM_DEFAULT: ordered with the copies of DeviceMemory
  constexpr unsigned kMeasuresTime = 0;    // CU_EVENT_DEFAULT
  use_first_gpu();
  call_driver("cuStreamCreate", &stream_, kWaitsForCopies);
  call_driver("cuEventCreate", &begin_, kMeasuresTime);
  call_driver("cuEventCreate", &end_, kMeasuresTime);
}

GpuStream::~GpuStream() {
  release("cuEventDestroy_v2", begin_);
  release("cuEventDestroy_v2", end_);
  release("cuStreamDestroy_v2", stream_);
}

double GpuStream::timed(const Launches& launches) const {
  if (stream_ == nullptr) {
    const auto start = std::chrono::steady_clock::now();
    launches();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }
  float milliseconds = 0;
  call_driver("cuEventRecord", begin_, stream_);
  launches();
  call_driver("cuEventRecord", end_, stream_);
  call_driver("cuEventSynchronize", end_);
  call_driver("cuEventElapsedTime", &milliseconds, begin_, end_);
  return static_cast<double>(milliseconds);
}

StepGraph::StepGraph(const GpuStream& stream, const Launches& launches) {
  constexpr int kThisThread = 1;  // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other threads may call the driver
  call_driver("cuStreamBeginCapture_v2", stream.get(), kThisThread);
  try {
    launches();
  } catch (...) {
    abandon_capture(stream.get());
    throw;
  }
  graph_ = end_capture(stream.get());
  call_driver("cuGraphInstantiateWithFlags", &executable_, graph_, 0ULL);
}

StepGraph::~StepGraph() {
  release("cuGraphExecDestroy", executable_);
  release("cuGraphDestroy", graph_);
}

void StepGraph::launch(const GpuStream& stream) const {
  call_driver("cuGraphLaunch", executable_, stream.get());
}

}  // namespace example
