// Work that no call waits for, on a thread of its own, and its end before the process exits.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <thread>

namespace fa2 {

/// Runs tasks one after the other on a thread of its own, which the first task starts. Thread-safe. Before the process exits, every
/// queue stops, because libraries that a task uses are taken down then. In a child made by fork(), which has no such thread, a queue
/// does nothing.
class TaskQueue {
 public:
  /// Must end soon after `stop` is requested. What it throws becomes a warning, but not an Interrupted.
  using Task = std::function<void(const std::stop_token& stop)>;

  /// The first task begins `patience` after it was added, so that short programs do not pay for what they will not use.
  explicit TaskQueue(std::chrono::milliseconds patience);
  /// Requests a stop, and waits for the task under way.
  ~TaskQueue();
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  /// Returns whether the name is new. It is known from then on.
  bool is_new(const std::string& name);

  /// Puts the task in line.
  void add(Task task);

  /// Returns whether all tasks so far are done.
  bool is_done() const;

  /// Requests a stop, and waits; later tasks are ignored.
  void stop();

 private:
  void run(const std::stop_token& stop);
  bool is_in_child() const;

  const std::chrono::milliseconds patience_;
  const int process_;  ///< the process that made this
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::set<std::string> names_;
  std::deque<Task> waiting_;
  bool is_working_ = false, is_stopped_ = false;
  std::unique_ptr<std::jthread> thread_;
};

/// Makes every queue stop when the process exits. Handlers run in reverse order: a task must call this after the libraries that it
/// uses have registered theirs, which NVRTC does in start_nvrtc().
void stop_tasks_at_exit();

}  // namespace fa2
