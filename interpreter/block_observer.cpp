// Each thread has one observer at a time.
#include <interpreter/block_observer.h>

#include <utility>

namespace fa2::interpreter {
namespace {

thread_local const BlockObserver* current_observer = nullptr;

}  // namespace

ScopedBlockObserver::ScopedBlockObserver(BlockObserver observer)
    : observer_(std::move(observer)), outer_(std::exchange(current_observer, &observer_)) {}

ScopedBlockObserver::~ScopedBlockObserver() {
  current_observer = outer_;
}

const BlockObserver* ScopedBlockObserver::current() {
  return current_observer;
}

}  // namespace fa2::interpreter
