// What tests/support/exception_counts.cpp tells ThreadSanitizer.
#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>

TEST_CASE("a shared exception: the last thread to release it destroys what another read") {
  std::promise<void> promise;
  std::shared_future<void> future = promise.get_future().share();
  std::atomic<bool> read{false};  // relaxed: ordered in time, but not for ThreadSanitizer
  std::size_t length = 0;
  std::jthread reader([future, &read, &length]() mutable {
    try {
      std::shared_future<void>(std::move(future)).get();
    } catch (const std::runtime_error& error) {
      length = std::string(error.what()).size();
    }
    read.store(true, std::memory_order_relaxed);
  });
  promise.set_exception(std::make_exception_ptr(std::runtime_error(std::string(100, 'x'))));
  promise = {};
  try {
    std::shared_future<void>(std::move(future)).get();
    FAIL("no exception");
  } catch (const std::runtime_error&) {
    while (!read.load(std::memory_order_relaxed)) std::this_thread::yield();
  }
  reader.join();
  CHECK(length == 100);
}
