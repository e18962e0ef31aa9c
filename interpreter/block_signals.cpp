// A count of flags under a mutex. The mutex also orders what clusters did before they wrote a flag.
#include <interpreter/block_signals.h>

#include <chrono>

namespace fa2::interpreter {
namespace {

constexpr std::chrono::milliseconds kMoment(50);

}  // namespace

void BlockSignals::cluster_begins() {
  const std::lock_guard lock(mutex_);
  ++begun_;
  ++running_;
}

void BlockSignals::cluster_ends() {
  {
    const std::lock_guard lock(mutex_);
    --running_;
  }
  changed_.notify_all();
}

void BlockSignals::give_up() {
  {
    const std::lock_guard lock(mutex_);
    failed_ = true;
  }
  changed_.notify_all();
}

std::uint64_t BlockSignals::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

void BlockSignals::signal() {
  {
    const std::lock_guard lock(mutex_);
    ++count_;
    waiting_ = 0;  // every waiting cluster checks its flags again
  }
  changed_.notify_all();
}

bool BlockSignals::is_hopeless() const {
  const bool none_can_begin = begun_ == clusters_ || running_ == at_once_;
  return failed_ || (waiting_ == running_ && none_can_begin);
}

bool BlockSignals::wait(std::uint64_t seen) {
  std::unique_lock lock(mutex_);
  if (count_ != seen) return true;
  ++waiting_;
  if (is_hopeless()) changed_.notify_all();
  changed_.wait_for(lock, kMoment, [&] { return count_ != seen || is_hopeless(); });
  if (count_ != seen) return true;  // signal() no longer counts this cluster
  const bool hopeless = is_hopeless();
  --waiting_;
  return !hopeless;
}

}  // namespace fa2::interpreter
