// Communicators of threads, and the threads.
#include <fmt/format.h>
#include <parallel/mailboxes.h>
#include <parallel/same_device_communicator.h>
#include <parallel/thread_group.h>

#include <exception>
#include <mutex>
#include <random>
#include <thread>

namespace fa2 {
namespace {

constexpr int kLongestPause = 200;  // us

class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(Mailboxes& mailboxes, int rank)
      : mailboxes_(mailboxes), rank_(rank), random_(mailboxes.options().seed + 1000 * rank) {}

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return mailboxes_.ranks(); }

  bool allows_peer_memory() const noexcept override { return mailboxes_.options().peer_memory; }

  std::uint64_t exchange(const Transfer* transfers, std::size_t count, Stream) override {
    if (auto found = violations(*this, transfers, count); !found.empty())
      throw InvalidRequest(std::move(found));
    pause();
    return mailboxes_.post(rank_, transfers, count);
  }

  void wait(std::uint64_t number) override {
    pause();
    mailboxes_.wait(rank_, number);
  }

  void check() override { mailboxes_.throw_failure(rank_); }

 private:
  void pause() {
    if (mailboxes_.options().seed == 0) return;
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % kLongestPause));
  }

  Mailboxes& mailboxes_;
  int rank_;
  std::mt19937_64 random_;
};

/// Keeps the first exception of any rank.
class FirstException {
 public:
  /// Must be called in a catch clause. Returns whether the current exception is the first.
  bool keep() {
    const std::lock_guard lock(mutex_);
    if (first_) return false;
    first_ = std::current_exception();
    return true;
  }
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
};

std::string current_message() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace

ThreadGroup::ThreadGroup(int ranks, const ThreadGroupOptions& options)
    : mailboxes_(std::make_unique<Mailboxes>(ranks, options)) {
  for (int rank = 0; rank < ranks; ++rank) {
    on_host_.push_back(std::make_unique<ThreadCommunicator>(*mailboxes_, rank));
    if (options.device)
      on_device_.push_back(std::make_unique<SameDeviceCommunicator>(*on_host_.back(), *options.device));
  }
}

ThreadGroup::~ThreadGroup() = default;

Communicator& ThreadGroup::communicator(int rank) {
  return *(on_device_.empty() ? on_host_ : on_device_).at(static_cast<std::size_t>(rank));
}

void ThreadGroup::run(const std::function<void(Communicator&)>& body) {
  FirstException failure;
  for (int rank = 0; rank < mailboxes_->ranks(); ++rank) mailboxes_->set_ended(rank, false);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < mailboxes_->ranks(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          body(communicator(rank));
        } catch (...) {
          if (failure.keep())
            mailboxes_->fail(fmt::format("rank {} ended with an error: {}", rank, current_message()));
        }
        mailboxes_->set_ended(rank, true);
      });
    }
  }
  failure.rethrow();
  require_settled();
}

void ThreadGroup::require_settled() {
  const std::string left = mailboxes_->leftovers();
  if (!left.empty()) throw CommunicationError("messages are left over:" + left, -1);
}

}  // namespace fa2
