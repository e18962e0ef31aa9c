// The thread of a TaskQueue, with tasks that only take notes.
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <runtime/process.h>
#include <runtime/task_queue.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace fa2;
using namespace std::chrono_literals;

/// Keeps the numbers of the tasks that ran.
struct Notes {
  std::mutex mutex;
  std::vector<int> numbers;

  TaskQueue::Task task(int number) {
    return [this, number](const std::stop_token&) {
      const std::lock_guard lock(mutex);
      numbers.push_back(number);
    };
  }
};

void work_until(const std::stop_token& stop) {
  while (!stop.stop_requested()) std::this_thread::sleep_for(1ms);
}

void wait_for(const TaskQueue& queue) {
  while (!queue.is_done()) std::this_thread::sleep_for(1ms);
}

}  // namespace

TEST_CASE("tasks: a name is new once") {
  TaskQueue queue(0ms);
  CHECK(queue.is_new("a"));
  CHECK(queue.is_new("b"));
  CHECK_FALSE(queue.is_new("a"));
}

TEST_CASE("tasks: they run in order, on another thread") {
  Notes notes;
  std::thread::id thread;
  TaskQueue queue(0ms);
  CHECK(queue.is_done());
  queue.add([&](const std::stop_token&) { thread = std::this_thread::get_id(); });
  queue.add(notes.task(1));
  queue.add(notes.task(2));
  wait_for(queue);
  queue.add(notes.task(3));
  wait_for(queue);
  CHECK(notes.numbers == std::vector<int>{1, 2, 3});
  CHECK(thread != std::this_thread::get_id());
}

TEST_CASE("tasks: a program that ends before the queue's patience runs none") {
  Notes notes;
  {
    TaskQueue queue(1h);
    queue.add(notes.task(1));
  }
  CHECK(notes.numbers.empty());
}

TEST_CASE("tasks: one that throws ends alone") {
  Notes notes;
  TaskQueue queue(0ms);
  queue.add([](const std::stop_token&) { throw Unavailable("no memory"); });
  queue.add(notes.task(2));
  wait_for(queue);
  CHECK(notes.numbers == std::vector<int>{2});
}

TEST_CASE("tasks: a stop ends the one under way, and no other begins") {
  std::atomic<int> begun = 0;
  TaskQueue queue(0ms);
  const auto task = [&](const std::stop_token& stop) {
    ++begun;
    work_until(stop);
  };
  queue.add(task);
  queue.add(task);
  while (begun == 0) std::this_thread::sleep_for(1ms);
  queue.stop();
  queue.add(task);
  CHECK(begun == 1);
}

TEST_CASE("tasks: a forked child neither runs them nor waits for the thread that it does not have") {
  std::atomic<bool> begun = false;
  auto* const queue = new TaskQueue(0ms);
  queue->add([&](const std::stop_token& stop) {
    begun = true;
    work_until(stop);
  });
  while (!begun) std::this_thread::sleep_for(1ms);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);  // ends a child that hangs
    if (queue->is_new("a")) ::_exit(8);
    queue->add([](const std::stop_token&) {});
    delete queue;
    ::_exit(7);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  delete queue;
}

TEST_CASE("tasks: a process that exits stops its queues first") {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);
    static std::atomic<bool> begun = false;
    auto* const queue = new TaskQueue(0ms);  // never destroyed, like the default context's
    queue->add([](const std::stop_token& stop) {
      stop_tasks_at_exit();
      begun = true;
      work_until(stop);
      ::_exit(3);  // reached only if the end of the process requests a stop
    });
    while (!begun) std::this_thread::sleep_for(1ms);
    std::exit(5);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 3);
}

TEST_CASE("process: the time of its start is past, and sorts as text") {
  CHECK(process_start() > 0);
  CHECK(process_start() <= std::time(nullptr));
  CHECK(utc_text(0) == "1970-01-01T00:00:00Z");
  CHECK(utc_text(999'999'999) < utc_text(1'000'000'000));
}
