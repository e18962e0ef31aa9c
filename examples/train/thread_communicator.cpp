// Matches the messages of each pair of ranks in the order in which both list them.
#include "thread_communicator.h"

#include <cstring>
#include <string>

namespace example {

std::uint64_t ThreadCommunicator::exchange(const fa2::Transfer* transfers, std::size_t count, fa2::Stream) {
  if (auto found = fa2::violations(*this, transfers, count); !found.empty())
    throw fa2::InvalidRequest(std::move(found));
  const std::span mine(transfers, count);
  meeting_.transfers[static_cast<std::size_t>(rank_)] = mine;
  meeting_.barrier.arrive_and_wait();  // every rank has told its transfers
  int wrong = -1;
  for (int peer = 0; peer < size(); ++peer) {
    if (!receives_from(peer, mine)) wrong = peer;
  }
  meeting_.barrier.arrive_and_wait();  // every rank has its data, so senders may write again
  if (wrong != -1)
    throw fa2::CommunicationError("rank " + std::to_string(rank_) + ": messages of rank " +
                                      std::to_string(wrong) + " are others than expected",
                                  rank_);
  return exchanges_++;
}

bool ThreadCommunicator::receives_from(int peer, std::span<const fa2::Transfer> mine) const {
  const std::span<const fa2::Transfer> theirs = meeting_.transfers[static_cast<std::size_t>(peer)];
  auto sent = theirs.begin();
  for (const fa2::Transfer& received : mine) {
    if (received.sends() || received.peer != peer) continue;
    while (sent != theirs.end() && !(sent->sends() && sent->peer == rank_)) ++sent;
    if (sent == theirs.end() || sent->bytes != received.bytes) return false;
    if (sent->bytes != 0) std::memcpy(received.data, sent->data, sent->bytes);
    ++sent;
  }
  return true;
}

}  // namespace example
