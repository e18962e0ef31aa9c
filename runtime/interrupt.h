// Ends long work of the CPU on the program's request: a compilation by the host's compiler, an interpreted launch.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace fa2 {

/// Returns not 0 if the work in progress must end.
using InterruptPoll = int (*)(void* data);

/// Sets the program's function in place of an earlier one; nullptr for none. Thread-safe.
void set_interrupt(InterruptPoll poll, void* data);

/// One piece of work, by any number of threads. The thread that made the object asks the program's function, because a
/// function may have to run on a certain thread; the other threads follow its answer.
class Interruption {
 public:
  /// Asks at most every 50 ms. @throws Interrupted, on every thread, once the function has returned not 0.
  void check();

 private:
  using Clock = std::chrono::steady_clock;

  const std::thread::id asks_ = std::this_thread::get_id();
  Clock::time_point asked_ = Clock::now();  ///< of the asking thread alone
  std::atomic<bool> is_wanted_ = false;
};

}  // namespace fa2
