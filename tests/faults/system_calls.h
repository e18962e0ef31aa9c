// Counts the file operations of the C library that this program calls, and makes them fail on request. Moves its clocks.
#pragma once

#include <cstdint>
#include <string>

namespace fa2::test {

enum class Effect : std::uint8_t {
  error,        ///< the call fails with SystemFault::error
  cut,          ///< a read or write transfers half of its bytes, at least one
  end,          ///< a read transfers nothing, as at the end of the file
  kill_before,  ///< SIGKILL before the call
  kill_after,   ///< SIGKILL after the call
};

/// A fault of calls that follow one another.
struct SystemFault {
  Effect effect = Effect::error;
  int error = 0;  ///< errno of Effect::error
  int first = 0;  ///< number of the first affected call; 0 or more
  int calls = 1;  ///< affected calls; 0: only count
};

/// While it lives, the fault happens to the calls of the thread that made it. Must not be nested.
class ScopedSystemFault {
 public:
  explicit ScopedSystemFault(const SystemFault& fault);
  ~ScopedSystemFault();
  ScopedSystemFault(const ScopedSystemFault&) = delete;
  ScopedSystemFault& operator=(const ScopedSystemFault&) = delete;

  /// Returns the number of calls so far.
  int calls() const;
  /// Returns the names of the affected functions, such as "openat fstat"; empty if the fault has not happened.
  std::string affected() const;
};

/// Makes flock() fail with this errno in the whole process; 0: it works.
void fail_locks(int error);

/// Makes std::random_device return `next`, `next` + 1, and so on. Names of temporary files and the choice to prune follow.
void set_random(unsigned next);

/// The clocks that the process reads. The kernel's time stamps of files do not follow.
struct FakeClock {
  std::int64_t wall_seconds = 0;  ///< added to the time of day
  bool is_virtual = false;        ///< sleeping ends at once, and moves the monotonic clock instead
  bool is_frozen = false;         ///< the monotonic clock stands still
  std::int64_t jump_seconds = 0;  ///< added to the time of day at each sleep
};

/// Sets the clocks of the process for its lifetime.
class ScopedClock {
 public:
  explicit ScopedClock(const FakeClock& clock);
  ~ScopedClock();
  ScopedClock(const ScopedClock&) = delete;
  ScopedClock& operator=(const ScopedClock&) = delete;
};

}  // namespace fa2::test
