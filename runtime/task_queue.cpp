// The thread of a TaskQueue, and the list of all queues.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <runtime/compiler.h>
#include <runtime/log.h>
#include <runtime/task_queue.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <system_error>
#include <utility>

namespace fa2 {
namespace {

/// All queues, for the end of the process.
struct Registry {
  std::mutex mutex;
  std::set<TaskQueue*> queues;
};
Registry& registry() {
  static Registry& only = *new Registry;  // never destroyed: it is used at exit
  return only;
}

void stop_all() {
  cancel_compilations();
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  for (TaskQueue* queue : known.queues) queue->stop();
}

}  // namespace

TaskQueue::TaskQueue(std::chrono::milliseconds patience) : patience_(patience), process_(::getpid()) {
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  known.queues.insert(this);
}

TaskQueue::~TaskQueue() {
  {
    Registry& known = registry();
    const std::lock_guard lock(known.mutex);
    known.queues.erase(this);
  }
  stop();
}

bool TaskQueue::is_in_child() const {
  return ::getpid() != process_;
}

bool TaskQueue::is_new(const std::string& name) {
  if (is_in_child()) return false;
  const std::lock_guard lock(mutex_);
  return names_.insert(name).second;
}

void TaskQueue::add(Task task) {
  if (is_in_child()) return;
  const std::lock_guard lock(mutex_);
  if (is_stopped_) return;
  try {
    if (!thread_)
      thread_ = std::make_unique<std::jthread>([this](const std::stop_token& stop) { run(stop); });
  } catch (const std::system_error& error) {
    warn_once("background thread", fmt::format("nothing runs in the background: {}", error.what()));
    return;
  }
  waiting_.push_back(std::move(task));
  changed_.notify_all();
}

bool TaskQueue::is_done() const {
  const std::lock_guard lock(mutex_);
  return waiting_.empty() && !is_working_;
}

void TaskQueue::stop() {
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

void TaskQueue::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, stop, patience_, [] { return false; });
  while (!stop.stop_requested()) {
    if (!changed_.wait(lock, stop, [this] { return !waiting_.empty(); })) return;
    const Task task = std::move(waiting_.front());
    waiting_.pop_front();
    is_working_ = true;
    lock.unlock();
    try {
      task(stop);
    } catch (const Interrupted&) {
      // the process exits
    } catch (const std::exception& error) {
      log().warn("in the background: {}", error.what());
    }
    lock.lock();
    is_working_ = false;
  }
}

void stop_tasks_at_exit() {
  static const int registered = std::atexit(stop_all);
  static_cast<void>(registered);
}

}  // namespace fa2
