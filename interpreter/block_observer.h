// The progress of a launch.
#pragma once

#include <cstddef>
#include <functional>

namespace fa2::interpreter {

/// Receives how many blocks of a launch are done: from any thread, one call at a time.
using BlockObserver = std::function<void(std::size_t done, std::size_t total)>;

/// Makes this thread's launches report to `observer` for its lifetime.
class ScopedBlockObserver {
 public:
  explicit ScopedBlockObserver(BlockObserver observer);
  ~ScopedBlockObserver();
  ScopedBlockObserver(const ScopedBlockObserver&) = delete;
  ScopedBlockObserver& operator=(const ScopedBlockObserver&) = delete;

  /// Returns the calling thread's observer; nullptr if it has none.
  static const BlockObserver* current();

 private:
  BlockObserver observer_;
  const BlockObserver* outer_;
};

}  // namespace fa2::interpreter
