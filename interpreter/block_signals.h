// How the blocks of a launch wait for one another.
#pragma once

#include <runtime/interrupt.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace fa2::interpreter {

/// A block that can only go on once another has written a flag sleeps until any block has written one. Thread-safe.
class BlockSignals {
 public:
  /// Of a launch of `blocks`, whose lower ones begin first, on as many host threads as `at_once`.
  BlockSignals(std::size_t blocks, std::size_t at_once) : blocks_(blocks), at_once_(at_once) {}

  void block_begins();
  void block_ends();
  /// A block failed: nobody waits any more.
  void give_up();

  /// So many flags were written.
  std::uint64_t count() const;
  /// After a flag was written.
  void signal();
  /// Waits until count() differs from `seen`, which the caller must read before it checks the flags, or a moment, so that
  /// the caller can check interruption(). Returns false on deadlock: every running block waits, and no other can begin.
  bool wait(std::uint64_t seen);

  /// Asked by the thread that made this object: the one that launches.
  Interruption& interruption() { return interruption_; }

 private:
  bool is_hopeless() const;

  const std::size_t blocks_, at_once_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t count_ = 0;
  std::size_t begun_ = 0, running_ = 0, waiting_ = 0;
  bool failed_ = false;
  Interruption interruption_;
};

}  // namespace fa2::interpreter
