// A communicator of threads on the interpreter, as small as one can be: what a program derives for its own kind of ranks.
#pragma once

#include <fa2/communicator.h>

#include <barrier>
#include <span>
#include <vector>

namespace example {

/// Where the threads of a group meet.
struct MeetingPoint {
  explicit MeetingPoint(int ranks) : transfers(static_cast<std::size_t>(ranks)), barrier(ranks) {}

  std::vector<std::span<const fa2::Transfer>> transfers;  ///< of the exchange in progress; per rank
  std::barrier<> barrier;
};

/// One rank's end. All ranks call exchange() together, and each copies what it receives. It ignores streams: the interpreter computes at
/// once, so data is ready when exchange() begins, and has arrived when exchange() returns.
class ThreadCommunicator final : public fa2::Communicator {
 public:
  /// `meeting` must outlive the communicator.
  ThreadCommunicator(MeetingPoint& meeting, int rank) : meeting_(meeting), rank_(rank) {}

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return static_cast<int>(meeting_.transfers.size()); }
  std::uint64_t exchange(const fa2::Transfer* transfers, std::size_t count, fa2::Stream stream) override;
  void check() override {}

 private:
  /// Copies what the peer sends to this rank. Returns whether its messages are those that `mine` expects.
  bool receives_from(int peer, std::span<const fa2::Transfer> mine) const;

  MeetingPoint& meeting_;
  int rank_;
  std::uint64_t exchanges_ = 0;
};

}  // namespace example
