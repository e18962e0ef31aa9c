// What all communicators share.
#include <fa2/communicator.h>
#include <fmt/format.h>
#include <parallel/request_check.h>

#include <cstring>

namespace fa2 {

Communicator::~Communicator() = default;

bool Communicator::allows_peer_memory() const noexcept {
  return false;
}

void Communicator::wait(std::uint64_t) {}

void Communicator::all_gather(const void* mine, std::size_t bytes, void* all) {
  auto* const parts = static_cast<std::byte*>(all);
  std::vector<Transfer> group;
  for (int peer = 0; peer < size(); ++peer) {
    std::byte* const part = parts + peer * bytes;
    if (peer == rank()) {
      if (bytes != 0) std::memcpy(part, mine, bytes);
      continue;
    }
    group.push_back({Transfer::Kind::send, peer, const_cast<void*>(mine), bytes});
    group.push_back({Transfer::Kind::receive, peer, part, bytes});
  }
  wait(exchange(group.data(), group.size(), nullptr));
}

std::vector<Violation> violations(const Communicator& communicator, const Transfer* transfers,
                                  std::size_t count) {
  RequestCheck found;
  for (std::size_t i = 0; i < count; ++i) {
    const Transfer& transfer = transfers[i];
    if (transfer.peer < 0 || transfer.peer >= communicator.size())
      found.add(fmt::format("transfers[{}].peer", i), transfer.peer,
                fmt::format("must be in 0..{}", communicator.size() - 1));
    if (transfer.data == nullptr && transfer.bytes != 0)
      found.add(fmt::format("transfers[{}].data", i), "null",
                fmt::format("must be the memory of {} bytes", transfer.bytes));
  }
  return found.take();
}

}  // namespace fa2
