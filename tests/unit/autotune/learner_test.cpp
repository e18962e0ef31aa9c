// The thread that measures in the background, with studies that only take notes.
#include <autotune/learner.h>
#include <doctest/doctest.h>
#include <fa2/errors.h>
#include <runtime/process.h>
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

Lesson lesson(std::int64_t batch) {
  return {.problem = PlannedProblem({.batch = batch}, {})};
}

/// Keeps the batches of the lessons that it has studied.
struct Notes {
  std::mutex mutex;
  std::vector<std::int64_t> batches;

  Learner::Study study() {
    return [this](const Lesson& l, const std::stop_token&) {
      const std::lock_guard lock(mutex);
      batches.push_back(l.problem.batch);
    };
  }
};

void wait_for(const Learner& learner) {
  while (!learner.is_done()) std::this_thread::sleep_for(1ms);
}

}  // namespace

TEST_CASE("learner: a name is new once") {
  Notes notes;
  Learner learner(notes.study(), 0ms);
  CHECK(learner.is_new("a"));
  CHECK(learner.is_new("b"));
  CHECK_FALSE(learner.is_new("a"));
}

TEST_CASE("learner: lessons are studied in order, on another thread") {
  Notes notes;
  std::thread::id thread;
  Learner learner(
      [&](const Lesson& l, const std::stop_token& stop) {
        thread = std::this_thread::get_id();
        notes.study()(l, stop);
      },
      0ms);
  CHECK(learner.is_done());
  learner.note(lesson(1));
  learner.note(lesson(2));
  wait_for(learner);
  learner.note(lesson(3));
  wait_for(learner);
  CHECK(notes.batches == std::vector<std::int64_t>{1, 2, 3});
  CHECK(thread != std::this_thread::get_id());
}

TEST_CASE("learner: a program that ends before its patience studies nothing") {
  Notes notes;
  {
    Learner learner(notes.study(), 1h);
    learner.note(lesson(1));
  }
  CHECK(notes.batches.empty());
}

TEST_CASE("learner: a study that throws costs its own lesson only") {
  Notes notes;
  Learner learner(
      [&](const Lesson& l, const std::stop_token& stop) {
        if (l.problem.batch == 1) throw Unavailable("no memory");
        notes.study()(l, stop);
      },
      0ms);
  learner.note(lesson(1));
  learner.note(lesson(2));
  wait_for(learner);
  CHECK(notes.batches == std::vector<std::int64_t>{2});
}

TEST_CASE("learner: a stop ends the study under way, and no other begins") {
  std::atomic<int> begun = 0;
  Learner learner(
      [&](const Lesson&, const std::stop_token& stop) {
        ++begun;
        while (!stop.stop_requested()) std::this_thread::sleep_for(1ms);
      },
      0ms);
  learner.note(lesson(1));
  learner.note(lesson(2));
  while (begun == 0) std::this_thread::sleep_for(1ms);
  learner.stop();
  learner.note(lesson(3));
  CHECK(begun == 1);
}

TEST_CASE("learner: a forked child neither studies nor waits for the thread that it does not have") {
  std::atomic<bool> begun = false;
  auto* const learner = new Learner(
      [&](const Lesson&, const std::stop_token& stop) {
        begun = true;
        while (!stop.stop_requested()) std::this_thread::sleep_for(1ms);
      },
      0ms);
  learner->note(lesson(1));
  while (!begun) std::this_thread::sleep_for(1ms);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);  // ends a child that hangs
    if (learner->is_new("a")) ::_exit(8);
    learner->note(lesson(2));
    delete learner;
    ::_exit(7);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  delete learner;
}

TEST_CASE("learner: a process that exits stops its learners first") {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);
    static std::atomic<bool> begun = false;
    auto* const learner = new Learner(  // never destroyed, like the default context's
        [](const Lesson&, const std::stop_token& stop) {
          stop_learning_at_exit();
          begun = true;
          while (!stop.stop_requested()) std::this_thread::sleep_for(1ms);
          ::_exit(3);  // reached only if the end of the process requests a stop
        },
        0ms);
    learner->note(lesson(1));
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
