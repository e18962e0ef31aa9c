// Ranks agree on the largest size that one of them needs, so all windows of a communicator are equal.
#include <api/parallel_windows.h>
#include <fmt/format.h>
#include <runtime/env.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace fa2 {
namespace {

/// A rank's demand, and the window that it has.
struct Wish {
  std::uint64_t bytes = 0;
  std::uint64_t window = 0;  ///< the id of its last window; 0: none
  std::uint64_t allows = 0;
};

}  // namespace

std::shared_ptr<PeerWindow> ParallelWindows::get(Communicator& communicator, std::size_t bytes,
                                                 std::string& why_not) {
  std::shared_ptr<PeerWindow> window;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(known_, [](const auto& known) { return known.second.expired(); });
    if (const auto found = known_.find(&communicator); found != known_.end()) window = found->second.lock();
  }
  const Wish mine{bytes, window ? window->id() : 0,
                  communicator.allows_peer_memory() && checked_env("FA2_PEER_MEMORY") == "1"};
  std::vector<Wish> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(&mine, sizeof mine, all.data());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].allows != 0) continue;
    why_not = fmt::format("that of rank {} allows no peer memory, or FA2_PEER_MEMORY is 0 there", rank);
    return nullptr;
  }
  const std::uint64_t most = std::ranges::max(all, {}, &Wish::bytes).bytes;
  const bool is_known = std::ranges::all_of(
      all, [&](const Wish& wish) { return wish.window != 0 && wish.window == all[0].window; });
  if (is_known && window->bytes() >= most) return window;
  window = PeerWindow::make(communicator, most, why_not);
  const std::lock_guard lock(mutex_);
  if (window) known_[&communicator] = window;
  return window;
}

}  // namespace fa2
