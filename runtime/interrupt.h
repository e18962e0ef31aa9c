// Ends long CPU work at the program's request: a compilation by the host compiler, or an interpreted launch.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace fa2 {

/// Returns nonzero if the work in progress must end.
using InterruptPoll = int (*)(void* data);

/// Sets the program's poll function and replaces an earlier one; nullptr for none. Thread-safe.
void set_interrupt(InterruptPoll poll, void* data);

/// One piece of work, on any number of threads. Only the thread that made the object polls, because the
/// function may need that thread. Other threads follow its answer.
class Interruption {
 public:
  /// Polls at most every 50 ms. @throws Interrupted, on every thread, once the function has returned nonzero.
  void check();

 private:
  using Clock = std::chrono::steady_clock;

  const std::thread::id asks_ = std::this_thread::get_id();
  Clock::time_point asked_ = Clock::now();  ///< only the polling thread uses it
  std::atomic<bool> is_wanted_ = false;
};

}  // namespace fa2
