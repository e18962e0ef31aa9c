// Vector clocks: which thread's doings happened before which other's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace fa2::interpreter {

/// A moment in one thread's life.
struct Epoch {
  std::int32_t thread = 0;
  std::uint32_t clock = 0;  ///< 0: before everything
};

/// What a barrier passes on: the latest moment of every thread that has arrived.
using Times = std::vector<std::uint32_t>;

class Clocks {
 public:
  explicit Clocks(int threads) : threads_(static_cast<std::size_t>(threads)), times_(threads_ * threads_) {
    reset();
  }

  void reset() {
    std::fill(times_.begin(), times_.end(), 0);
    for (std::size_t t = 0; t < threads_; ++t) times_[t * threads_ + t] = 1;
  }

  Epoch now(int thread) const { return {thread, of(thread)[thread]}; }

  /// Whether `then` happened before what `thread` does now.
  bool knows(int thread, Epoch then) const { return of(thread)[then.thread] >= then.clock; }

  /// `thread` arrives: what it did is passed on, what it does next is not.
  void arrive(int thread, Times& joined) {
    joined.resize(threads_);
    for (std::size_t t = 0; t < threads_; ++t) joined[t] = std::max(joined[t], of(thread)[t]);
    ++of(thread)[thread];
  }

  /// `thread` leaves: it knows of everything that was passed on.
  void leave(int thread, const Times& joined) {
    for (std::size_t t = 0; t < threads_; ++t) of(thread)[t] = std::max(of(thread)[t], joined[t]);
  }

 private:
  std::uint32_t* of(int thread) { return &times_[static_cast<std::size_t>(thread) * threads_]; }
  const std::uint32_t* of(int thread) const { return &times_[static_cast<std::size_t>(thread) * threads_]; }

  std::size_t threads_;
  std::vector<std::uint32_t> times_;
};

}  // namespace fa2::interpreter
