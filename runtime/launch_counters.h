// Words of device memory that kernels count with: 0 between launches, each of one launch at a time.
#pragma once

#include <runtime/device_buffer.h>
#include <runtime/free_list.h>
#include <runtime/graph.h>
#include <runtime/kernel.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace fa2 {

/// For one device. Thread-safe.
class LaunchCounters {
 public:
  static constexpr std::uint32_t kForGraphs = 1 << 18;

  /// In the current context. `for_graphs`: how many launches graphs may hold at once.
  explicit LaunchCounters(std::uint32_t for_graphs = kForGraphs);

  /// For one launch, which counts in it and leaves 0. Launches take turns at some ten thousand words, far more
  /// than are ever in flight; one that `graph` captures (null: none does) has a word of its own until the graph
  /// and all that was made of it are gone. @throws Unavailable, CudaError.
  std::uint32_t* take(Graph graph);

  /// A word of those for graphs, until the last copy is gone: that may be after this object, on any thread.
  /// @throws Unavailable if all of them are lent.
  std::shared_ptr<std::uint32_t> lend();

  /// What a launch may touch.
  MemoryRange memory() const;

 private:
  std::uint32_t* words() const { return static_cast<std::uint32_t*>(words_.data()); }

  const std::uint32_t for_graphs_;
  DeviceBuffer words_;
  std::atomic<std::uint32_t> next_{0};
  std::shared_ptr<FreeList> free_;  ///< of the words for graphs; shared with who holds one
};

}  // namespace fa2
