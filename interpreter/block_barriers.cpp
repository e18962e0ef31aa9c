// Barriers of a block, by number and in shared memory.
#include <fmt/format.h>
#include <interpreter/block.h>
#include <interpreter/cluster.h>
#include <interpreter/text.h>

namespace fa2::interpreter {

/// Fails if a lane of this warp waits at another barrier, because a barrier takes whole warps. After
/// arriving, a lane may.
void Block::require_one_barrier(Site site) const {
  const int first = current_ - current_ % 32;
  for (int t = first; t < first + 32; ++t) {
    const Thread& other = threads_[static_cast<std::size_t>(t)];
    if (other.state != State::at_barrier || same(other.waits_at, site)) continue;
    fault(current_, site,
          fmt::format("divergent warp: a barrier here, while lane {} {}", t - first, doing_of(t)));
  }
}

bool Block::arrive(int id, int threads, Site site) {
  if (id < 0 || id >= kBarriers)
    fault(current_, site, fmt::format("barrier = {}, must be 0..{}", id, kBarriers - 1));
  if (threads % 32 != 0)
    fault(current_, site, fmt::format("barrier {}: threads = {}, must be a multiple of 32", id, threads));
  Barrier& barrier = barriers_[id];
  const int expected = threads == 0 ? static_cast<int>(threads_.size()) : threads;
  if (barrier.arrived > 0 && barrier.expected != expected) {
    fault(current_, site,
          fmt::format("barrier {} for {} threads here, for {} where others arrived", id, expected,
                      barrier.expected));
  }
  barrier.expected = expected;
  clocks_.arrive(current_number(), barrier.joined);
  if (++barrier.arrived < expected) return false;
  for (const int waiting : barrier.waiting) {
    clocks_.leave(number_of(waiting), barrier.joined);
    wake(waiting);
  }
  return true;
}

void Block::bar_sync(int id, int threads, Site site) {
  if (options_.checks) require_one_barrier(site);
  if (arrive(id, threads, site)) {
    clocks_.leave(current_number(), barriers_[id].joined);
    barriers_[id] = {};
    return;
  }
  barriers_[id].waiting.push_back(current_);
  wait(State::at_barrier, static_cast<unsigned>(id), site);
}

void Block::bar_arrive(int id, int threads, Site site) {
  if (arrive(id, threads, site)) barriers_[id] = {};
}

void Block::barrier_cluster_arrive(int first, Site site) {
  for (int thread = first; thread < first + 32; ++thread)
    require(cluster_.barrier().arrive(number_of(thread), site), site);
}

void Block::barrier_cluster_wait(Site site) {
  bool waits = false;
  require(cluster_.barrier().wait(current_number(), waits), site);
  if (waits) wait(State::at_cluster_barrier, 0, site);
}

void Block::mbarrier_init(unsigned mbarrier, int arrivals, Site site) {
  require(mbarriers_.init(current_number(), mbarrier, arrivals), site);
}

void Block::fence_mbarrier_init() {
  mbarriers_.fence_init(current_number());
}

void Block::mbarrier_arrive(unsigned mbarrier, int bytes, Site site) {
  require(mbarriers_.arrive(current_number(), mbarrier, bytes), site);
}

void Block::mbarrier_wait(unsigned mbarrier, unsigned parity, bool cluster, Site site) {
  bool waits = false;
  const Scope scope = cluster ? Scope::cluster : Scope::block;
  require(mbarriers_.wait(current_number(), mbarrier, parity, scope, waits), site);
  if (waits) wait(State::at_mbarrier, mbarrier, site);
}

}  // namespace fa2::interpreter
