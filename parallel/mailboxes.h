// The messages of a group of threads.
#pragma once

#include <fa2/communicator.h>
#include <parallel/thread_group.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace fa2 {

/// One rank's half of a message, from exchange() to wait().
struct MessageHalf {
  Transfer transfer;
  int rank = 0;
  std::uint64_t exchange = 0;      ///< number of the rank's exchange
  bool matched = false;            ///< the partner has come
  std::uint64_t hash = 0;          ///< of a send: its data when it was enqueued
  std::vector<std::byte> payload;  ///< of a receive, with `late`: the data, until wait()
};

/// Matches messages in order, per pair of ranks and direction. Thread-safe.
class Mailboxes {
 public:
  Mailboxes(int ranks, const ThreadGroupOptions& options);

  int ranks() const { return static_cast<int>(sides_.size()); }
  const ThreadGroupOptions& options() const { return options_; }

  /// Enqueues a rank's exchange, and copies what now has a partner. Returns its number.
  std::uint64_t post(int rank, const Transfer* transfers, std::size_t count);

  /// Waits for the rank's exchanges up to `number`, and completes them.
  void wait(int rank, std::uint64_t number);

  /// Marks a rank as able to answer, or as ended.
  void set_ended(int rank, bool ended);

  /// Makes every later call, and all that wait, throw `message`, unless there is an earlier failure.
  void fail(const std::string& message);
  void throw_failure(int rank);

  /// Returns a line per message without a partner, and per exchange that was not waited for.
  std::string leftovers();

 private:
  struct Side {
    std::deque<std::vector<std::shared_ptr<MessageHalf>>> exchanges;  ///< not yet waited for
    std::uint64_t first = 0;                                          ///< number of exchanges.front()
    bool waits = false;
    bool ended = false;
  };
  /// Halves without a partner, in order.
  struct Box {
    std::deque<std::shared_ptr<MessageHalf>> sends, receives;
  };

  void require_working(int rank) const;
  void match(Box& box);
  void deliver(const MessageHalf& send, MessageHalf& receive);
  void complete(MessageHalf& half);
  const MessageHalf* unmatched(int rank, std::uint64_t number) const;
  std::string who_waits() const;
  void fail_locked(const std::string& message);

  ThreadGroupOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Side> sides_;
  std::map<std::pair<int, int>, Box> boxes_;  ///< by sender and receiver
  std::string failure_;
};

}  // namespace fa2
