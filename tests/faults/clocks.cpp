// The clocks of the process: fa2 reads them by time(), and libstdc++ by clock_gettime().
#include <dlfcn.h>
#include <time.h>

#include <atomic>
#include <cstdint>

#include "system_calls.h"

namespace {

constexpr std::int64_t kNanoseconds = 1'000'000'000;

std::atomic<std::int64_t> wall_seconds = 0, jump_seconds = 0;
std::atomic<bool> is_virtual = false, is_frozen = false;
std::atomic<std::int64_t> slept = 0;      // nanoseconds
std::atomic<std::int64_t> frozen_at = 0;  // nanoseconds

template <class Function>
Function* next_named(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

int real_time(clockid_t clock, timespec* now) {
  static auto* const next = next_named<int(clockid_t, timespec*)>("clock_gettime");
  return next(clock, now);
}

std::int64_t nanoseconds(const timespec& time) {
  return time.tv_sec * kNanoseconds + time.tv_nsec;
}

}  // namespace

namespace fa2::test {

ScopedClock::ScopedClock(const FakeClock& clock) {
  timespec now{};
  real_time(CLOCK_MONOTONIC, &now);
  frozen_at = nanoseconds(now);
  slept = 0;
  wall_seconds = clock.wall_seconds;
  jump_seconds = clock.jump_seconds;
  is_virtual = clock.is_virtual;
  is_frozen = clock.is_frozen;
}
ScopedClock::~ScopedClock() {
  wall_seconds = jump_seconds = 0;
  is_virtual = is_frozen = false;
}

}  // namespace fa2::test

#pragma GCC visibility push(default)
extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const int result = real_time(clock, now);
  if (result != 0) return result;
  if (clock == CLOCK_REALTIME) now->tv_sec += wall_seconds;
  if (clock != CLOCK_MONOTONIC || !(is_virtual || is_frozen)) return 0;
  const std::int64_t time =
      (is_frozen ? frozen_at.load() : nanoseconds(*now)) + (is_virtual ? slept.load() : 0);
  *now = {time / kNanoseconds, time % kNanoseconds};
  return 0;
}

time_t time(time_t* to) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (to != nullptr) *to = now.tv_sec;
  return now.tv_sec;
}

int nanosleep(const timespec* pause, timespec* rest) {
  static auto* const next = next_named<int(const timespec*, timespec*)>("nanosleep");
  wall_seconds += jump_seconds;
  if (!is_virtual) return next(pause, rest);
  slept += nanoseconds(*pause);
  return 0;
}

}  // extern "C"
#pragma GCC visibility pop
