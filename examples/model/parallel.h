// Parallel loops over the machine's cores.
#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace example {

/// While this object exists, parallel_for() on the thread that made it uses all threads.
class Workers {
 public:
  using Body = std::function<void(std::int64_t)>;

  /// `shares`: objects that share the machine's cores; >= 1.
  explicit Workers(unsigned shares = 1) : start_(threads(shares)), end_(threads(shares)) {
    for (int i = 1; i < threads(shares); ++i) threads_.emplace_back([this] { work(); });
    current() = this;
  }
  ~Workers() {
    current() = nullptr;
    body_ = nullptr;
    start_.arrive_and_wait();
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void run(std::int64_t count, const Body& body) {
    body_ = &body, count_ = count, next_ = 0;
    start_.arrive_and_wait();
    Workers* const self = std::exchange(current(), nullptr);  // a loop inside a body is not parallel
    take_part();
    current() = self;
    end_.arrive_and_wait();
  }

  /// Returns the workers of this thread; null if there are none.
  static Workers*& current() {
    thread_local Workers* workers = nullptr;
    return workers;
  }

 private:
  static int threads(unsigned shares) {
    constexpr unsigned kMost = 16;  // because small matrices have no work for more
    return static_cast<int>(std::clamp(std::thread::hardware_concurrency() / shares, 1u, kMost));
  }

  void work() {
    for (;;) {
      start_.arrive_and_wait();
      if (body_ == nullptr) return;
      take_part();
      end_.arrive_and_wait();
    }
  }
  void take_part() {
    for (std::int64_t i = next_++; i < count_; i = next_++) (*body_)(i);
  }

  const Body* body_ = nullptr;
  std::int64_t count_ = 0;
  std::atomic<std::int64_t> next_ = 0;
  std::barrier<> start_, end_;
  std::vector<std::jthread> threads_;
};

/// Calls body(i) for every i below `count`, in any order. `body` must not throw.
inline void parallel_for(std::int64_t count, const Workers::Body& body) {
  if (Workers* const workers = Workers::current()) return workers->run(count, body);
  for (std::int64_t i = 0; i < count; ++i) body(i);
}

}  // namespace example
