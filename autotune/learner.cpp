// The thread of a Learner, and its end before the process exits.
#include <autotune/learner.h>
#include <runtime/compiler.h>
#include <runtime/log.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <utility>

namespace fa2 {
namespace {

/// All learners, for the end of the process.
struct Registry {
  std::mutex mutex;
  std::set<Learner*> learners;
};
Registry& registry() {
  static Registry& only = *new Registry;  // never destroyed: it is used at exit
  return only;
}

void stop_all() {
  cancel_compilations();
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  for (Learner* learner : known.learners) learner->stop();
}

}  // namespace

Learner::Learner(Study study, std::chrono::milliseconds patience)
    : study_(std::move(study)), patience_(patience), process_(::getpid()) {
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  known.learners.insert(this);
}

Learner::~Learner() {
  {
    Registry& known = registry();
    const std::lock_guard lock(known.mutex);
    known.learners.erase(this);
  }
  stop();
}

bool Learner::is_in_child() const {
  return ::getpid() != process_;
}

bool Learner::is_new(const std::string& name) {
  if (is_in_child()) return false;
  const std::lock_guard lock(mutex_);
  return names_.insert(name).second;
}

void Learner::note(const Lesson& lesson) {
  if (is_in_child()) return;
  const std::lock_guard lock(mutex_);
  if (is_stopped_) return;
  waiting_.push_back(lesson);
  if (!thread_) thread_ = std::make_unique<std::jthread>([this](const std::stop_token& stop) { run(stop); });
  changed_.notify_all();
}

bool Learner::is_done() const {
  const std::lock_guard lock(mutex_);
  return waiting_.empty() && !is_studying_;
}

void Learner::stop() {
  if (is_in_child()) {
    static_cast<void>(thread_.release());  // joining a thread that fork() did not copy would wait forever
    return;
  }
  std::unique_ptr<std::jthread> thread;
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    thread = std::move(thread_);
  }
  // The destructor of the thread requests the stop and joins.
}

void Learner::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, stop, patience_, [] { return false; });
  while (!stop.stop_requested()) {
    if (!changed_.wait(lock, stop, [this] { return !waiting_.empty(); })) return;
    const Lesson lesson = waiting_.front();
    waiting_.pop_front();
    is_studying_ = true;
    lock.unlock();
    try {
      study_(lesson, stop);
    } catch (const std::exception& error) {
      log().warn("nothing was learned about {}: {}", to_string(lesson.problem), error.what());
    }
    lock.lock();
    is_studying_ = false;
  }
}

void stop_learning_at_exit() {
  static const int registered = std::atexit(stop_all);
  static_cast<void>(registered);
}

}  // namespace fa2
