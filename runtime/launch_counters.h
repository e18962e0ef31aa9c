// Words of device memory that kernels count with: 0 between launches, each of one launch at a time.
#pragma once

#include <runtime/device_buffer.h>
#include <runtime/free_list.h>
#include <runtime/graph.h>
#include <runtime/kernel.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace fa2 {

/// How many, and how large.
struct CounterSizes {
  std::uint32_t in_turn = 1 << 14;     ///< launches that take turns: far more than are ever in flight
  std::uint32_t for_graphs = 1 << 18;  ///< launches that graphs may hold at once
  std::uint32_t words = 1;             ///< of a launch
};

/// For one device. Thread-safe.
class LaunchCounters {
 public:
  /// In the current context.
  explicit LaunchCounters(const CounterSizes& sizes = {});

  /// The words of one launch, which counts in them and leaves 0. Launches take turns; one that `graph` captures (null: none
  /// does) has words of its own until the graph and all that was made of it are gone. @throws Unavailable, CudaError.
  std::uint32_t* take(Graph graph);

  /// Words of those for graphs, until the last copy is gone: that may be after this object, on any thread.
  /// @throws Unavailable if all of them are lent.
  std::shared_ptr<std::uint32_t> lend();

  /// What a launch may touch.
  MemoryRange memory() const;

 private:
  /// Of one launch.
  std::uint32_t* words(std::uint32_t number) const {
    return static_cast<std::uint32_t*>(words_.data()) + std::size_t{number} * sizes_.words;
  }

  const CounterSizes sizes_;
  DeviceBuffer words_;
  std::atomic<std::uint32_t> next_{0};
  std::shared_ptr<FreeList> free_;  ///< of the words for graphs; shared with who holds one
};

}  // namespace fa2
