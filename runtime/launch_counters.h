// Words of device memory that kernels count with: 0 between launches, each of one launch at a time.
#pragma once

#include <runtime/device_buffer.h>
#include <runtime/kernel.h>

#include <atomic>
#include <cstdint>

namespace fa2 {

/// For one device. Thread-safe.
class LaunchCounters {
 public:
  /// In the current context.
  LaunchCounters();

  /// For one launch. A kernel counts in it and leaves 0. Launches take turns at some ten thousand of them,
  /// far more than are ever in flight; a launch that a graph captures keeps its own for good. @throws
  /// Unavailable when all of these are taken.
  std::uint32_t* take(bool captured);

  /// What a launch may touch.
  MemoryRange memory() const;

 private:
  DeviceBuffer words_;
  std::atomic<std::uint32_t> next_{0};
  std::atomic<std::uint32_t> captured_{0};
};

}  // namespace fa2
