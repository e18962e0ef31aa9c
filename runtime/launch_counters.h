// Counters of kernels, in device memory. They are 0 between launches, and each belongs to one launch at a
// time.
#pragma once

#include <runtime/device_buffer.h>
#include <runtime/free_list.h>
#include <runtime/graph.h>
#include <runtime/kernel.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace fa2 {

/// Number and size of counters.
struct CounterSizes {
  std::uint32_t in_turn = 1 << 14;     ///< launches in rotation; far more than are ever in flight
  std::uint32_t for_graphs = 1 << 18;  ///< sets of words that graphs may hold at once
  std::uint32_t words = 1;             ///< counters per launch; 32-bit words; 1 or 1024
};

/// Returns the sizes for launches of `words` counters. Split KV has 1024, and so fewer launches: about 20 MB.
constexpr CounterSizes counter_sizes(std::uint32_t words) {
  if (words == 1) return {};
  return {.in_turn = 1 << 10, .for_graphs = 1 << 12, .words = words};
}

/// The counters of one device. Thread-safe.
class LaunchCounters {
 public:
  /// Allocates in the current context.
  explicit LaunchCounters(const CounterSizes& sizes = {});

  /// Returns the words of one launch on `stream`, which must leave them 0. Ordinary launches use words in
  /// rotation. Launches that one capture takes from one stream run one after the other, and share words: these
  /// stay theirs until the graph and everything made from it are gone. @throws Unavailable, CudaError.
  std::uint32_t* take(const Capture& capture, Stream stream);

  /// Returns words for a graph. They are returned when the last copy is gone, possibly after this object, on
  /// any thread.
  /// @throws Unavailable if all are in use.
  std::shared_ptr<std::uint32_t> lend();

  /// Returns the memory that a launch may access.
  MemoryRange memory() const;

 private:
  /// Returns the words of one launch.
  std::uint32_t* words(std::uint32_t number) const {
    return static_cast<std::uint32_t*>(words_.data()) + std::size_t{number} * sizes_.words;
  }

  using Captured = std::pair<std::uint64_t, Stream>;  ///< number of the capture

  const CounterSizes sizes_;
  DeviceBuffer words_;
  std::atomic<std::uint32_t> next_{0};
  std::mutex mutex_;
  std::map<Captured, std::weak_ptr<std::uint32_t>> captured_;  ///< under the mutex
  std::shared_ptr<FreeList> free_;                             ///< words for graphs; shared with every holder
};

}  // namespace fa2
