// What a process has used without a measurement, and the thread that measures it meanwhile.
#pragma once

#include <generator/kernel_kind.h>
#include <generator/kernel_spec.h>

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

/// A pass of a problem on a device, which is to be measured.
struct Lesson {
  PlannedProblem problem;  ///< valid and normalized
  int device = 0;
  KernelPass pass = KernelPass::forward;
};

/// Studies lessons one after the other on a thread of its own, which the first lesson starts. Thread-safe. Before the process
/// exits, every learner stops, because libraries that a study uses are taken down then. In a child made by fork(), which has no
/// such thread, a learner does nothing.
class Learner {
 public:
  /// Measures a lesson. It must end soon after `stop` is requested. What it throws becomes a warning.
  using Study = std::function<void(const Lesson& lesson, const std::stop_token& stop)>;

  /// The first study begins `patience` after the first lesson, so that short programs do not pay for what they will not use.
  Learner(Study study, std::chrono::milliseconds patience);
  /// Requests a stop, and waits for the study under way.
  ~Learner();
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;

  /// Returns whether the name is new. It is known from then on.
  bool is_new(const std::string& name);

  /// Puts the lesson in line.
  void note(const Lesson& lesson);

  /// Returns whether all lessons so far are studied.
  bool is_done() const;

  /// Requests a stop, and waits; later lessons are ignored.
  void stop();

 private:
  void run(const std::stop_token& stop);
  bool is_in_child() const;

  const Study study_;
  const std::chrono::milliseconds patience_;
  const int process_;  ///< the process that made this
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::set<std::string> names_;
  std::deque<Lesson> waiting_;
  bool is_studying_ = false, is_stopped_ = false;
  std::unique_ptr<std::jthread> thread_;
};

/// Makes every learner stop when the process exits. Handlers run in reverse order: a study must call this after it has opened the
/// libraries that it uses, so that they outlive it.
void stop_learning_at_exit();

}  // namespace fa2
