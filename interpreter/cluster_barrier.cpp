// A phase completes when every thread has arrived once more.
#include <fmt/format.h>
#include <interpreter/cluster_barrier.h>

#include <utility>

namespace fa2::interpreter {

ClusterBarrier::ClusterBarrier(Clocks& clocks, int threads, std::function<void(int thread)> wake)
    : clocks_(clocks), wake_(std::move(wake)), threads_(static_cast<std::size_t>(threads)) {}

void ClusterBarrier::reset() {
  threads_.assign(threads_.size(), {});
  arrived_ = 0;
  ended_ = -1;
  phase_ = 0;
  joining_.clear();
  completed_.clear();
}

std::string ClusterBarrier::arrive(int thread, Site site) {
  Thread& it = threads_[static_cast<std::size_t>(thread)];
  if (it.arrived != it.waited) return "barrier.cluster.arrive, twice with no barrier.cluster.wait between";
  if (ended_ >= 0)
    return fmt::format("barrier.cluster.arrive, without {}, which has ended", clocks_.name(ended_));
  ++it.arrived;
  arrived_at_ = site;
  clocks_.arrive(thread, joining_);
  if (++arrived_ == static_cast<int>(threads_.size())) finish_phase();
  return {};
}

void ClusterBarrier::finish_phase() {
  arrived_ = 0;
  ++phase_;
  completed_ = joining_;  // `joining_` keeps it, because later phases imply this one
  for (std::size_t t = 0; t < threads_.size(); ++t) {
    if (!std::exchange(threads_[t].waits, false)) continue;
    clocks_.leave(static_cast<int>(t), completed_);
    wake_(static_cast<int>(t));
  }
}

std::string ClusterBarrier::wait(int thread, bool& waits) {
  Thread& it = threads_[static_cast<std::size_t>(thread)];
  if (it.arrived == it.waited) return "barrier.cluster.wait with no barrier.cluster.arrive before it";
  ++it.waited;
  waits = it.waits = it.waited > phase_;
  if (!waits) clocks_.leave(thread, completed_);
  return {};
}

std::string ClusterBarrier::end(int thread, Site& site) {
  const Thread& it = threads_[static_cast<std::size_t>(thread)];
  site = arrived_at_;
  if (it.arrived != it.waited) return "the thread ended with no barrier.cluster.wait for its arrival";
  if (arrived_ > 0)
    return fmt::format(
        "the thread ended before a barrier.cluster.arrive here, where {} of {} threads have arrived",
        arrived_, threads_.size());
  ended_ = thread;
  return {};
}

std::string ClusterBarrier::describe() const {
  return fmt::format("barrier.cluster.wait ({} of {} threads of the cluster have arrived)", arrived_,
                     threads_.size());
}

}  // namespace fa2::interpreter
