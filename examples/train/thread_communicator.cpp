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
  for (int peer = 0; peer < size(); ++peer) receive_from(peer, mine);
  meeting_.barrier.arrive_and_wait();  // every rank has its data, so senders may write again
  return exchanges_++;
}

void ThreadCommunicator::receive_from(int peer, std::span<const fa2::Transfer> mine) const {
  const std::span<const fa2::Transfer> theirs = meeting_.transfers[static_cast<std::size_t>(peer)];
  auto sent = theirs.begin();
  for (const fa2::Transfer& received : mine) {
    if (received.sends() || received.peer != peer) continue;
    while (sent != theirs.end() && !(sent->sends() && sent->peer == rank_)) ++sent;
    if (sent == theirs.end() || sent->bytes != received.bytes)
      throw fa2::CommunicationError("rank " + std::to_string(peer) + " sends rank " + std::to_string(rank_) +
                                        " other messages than that expects",
                                    rank_);
    if (sent->bytes != 0) std::memcpy(received.data, sent->data, sent->bytes);
    ++sent;
  }
}

}  // namespace example
