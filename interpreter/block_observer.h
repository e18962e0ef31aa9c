// How far a launch has come.
#pragma once

#include <cstddef>
#include <functional>

namespace fa2::interpreter {

/// Told how many of a launch's blocks are done: from any thread, one call at a time.
using BlockObserver = std::function<void(std::size_t done, std::size_t total)>;

/// The launches of this thread tell `observer` while it lives.
class ScopedBlockObserver {
 public:
  explicit ScopedBlockObserver(BlockObserver observer);
  ~ScopedBlockObserver();
  ScopedBlockObserver(const ScopedBlockObserver&) = delete;
  ScopedBlockObserver& operator=(const ScopedBlockObserver&) = delete;

  /// The calling thread's; nullptr if it has none.
  static const BlockObserver* current();

 private:
  BlockObserver observer_;
  const BlockObserver* outer_;
};

}  // namespace fa2::interpreter
