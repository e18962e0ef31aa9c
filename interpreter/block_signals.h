// Flags between the clusters of a launch, of which most have one block.
#pragma once

#include <runtime/interrupt.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace fa2::interpreter {

/// Lets a cluster whose threads wait for another's flag sleep until any cluster writes one. Thread-safe.
class BlockSignals {
 public:
  /// For a launch with `clusters` clusters. Lower ones start first, on up to `at_once` host threads.
  BlockSignals(std::size_t clusters, std::size_t at_once) : clusters_(clusters), at_once_(at_once) {}

  void cluster_begins();
  void cluster_ends();
  /// Ends all waits, because a cluster failed.
  void give_up();

  /// Returns how many flags have been written.
  std::uint64_t count() const;
  /// Wakes all waiting clusters. Must follow the write of a flag.
  void signal();
  /// Waits until count() differs from `seen`, which the caller must read before it checks the flags. Also
  /// returns after a moment, so that the caller can check interruption(). Returns false on deadlock: every
  /// running cluster waits, and no other can start.
  bool wait(std::uint64_t seen);

  /// Only the launching thread, which made this object, polls the program's function.
  Interruption& interruption() { return interruption_; }

 private:
  bool is_hopeless() const;

  const std::size_t clusters_, at_once_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t count_ = 0;
  std::size_t begun_ = 0, running_ = 0, waiting_ = 0;
  bool failed_ = false;
  Interruption interruption_;
};

}  // namespace fa2::interpreter
