// A parallel loop over indices.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace fa2 {

/// Returns the cores that this process may use: with taskset or in a container fewer than the machine has.
inline int usable_cores() {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

/// Calls body(i) once for each i in [0, count), on up to `threads` threads including the caller's. Indices
/// start in ascending order. After an exception no further index starts. The exception with the lowest index
/// is rethrown at the end, so it is the same in every run.
template <class Body>
void for_each_index(std::size_t count, int threads, const Body& body) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::size_t failed = count;
  std::exception_ptr failure;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        body(i);
      } catch (...) {
        next = count;
        const std::lock_guard lock(mutex);
        if (i >= failed) continue;
        failed = i;
        failure = std::current_exception();
      }
    }
  };
  {
    const std::size_t wanted = std::min(count, static_cast<std::size_t>(std::max(threads, 1)));
    std::vector<std::jthread> others;
    try {
      for (std::size_t i = 1; i < wanted; ++i) others.emplace_back(work);
    } catch (const std::system_error&) {
      // The system starts no more threads: these suffice.
    }
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace fa2
