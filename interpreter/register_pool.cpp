// A warp can only take registers that another warp has given back.
#include <fmt/format.h>
#include <interpreter/register_pool.h>

#include <utility>

namespace fa2::interpreter {

RegisterPool::RegisterPool(int warps, int per_thread, std::function<void(int warp)> wake)
    : at_launch_(per_thread), wake_(std::move(wake)), warps_(static_cast<std::size_t>(warps)) {
  reset();
}

void RegisterPool::reset() {
  free_ = 0;
  for (Warp& warp : warps_) warp = {at_launch_, 0};
}

std::string RegisterPool::decrease(int index, int per_thread) {
  Warp& warp = warps_[static_cast<std::size_t>(index)];
  if (per_thread > warp.has)
    return fmt::format("setmaxnreg.dec to {} registers per thread, must be at most {}, which the warp has",
                       per_thread, warp.has);
  free_ += warp.has - per_thread;
  warp.has = per_thread;
  for (std::size_t i = 0; i < warps_.size(); ++i) {
    if (warps_[i].wants > 0 && take(warps_[i])) wake_(static_cast<int>(i));
  }
  return {};
}

std::string RegisterPool::increase(int index, int per_thread) {
  Warp& warp = warps_[static_cast<std::size_t>(index)];
  if (per_thread < warp.has)
    return fmt::format("setmaxnreg.inc to {} registers per thread, must be at least {}, which the warp has",
                       per_thread, warp.has);
  warp.wants = per_thread;
  take(warp);
  return {};
}

bool RegisterPool::take(Warp& warp) {
  if (warp.wants - warp.has > free_) return false;
  free_ -= warp.wants - warp.has;
  warp.has = std::exchange(warp.wants, 0);
  return true;
}

std::string RegisterPool::describe(int index) const {
  const Warp& warp = warps_[static_cast<std::size_t>(index)];
  return fmt::format(
      "setmaxnreg.inc to {} (the warp has {}, of {} at launch; the block has {} free per warp)", warp.wants,
      warp.has, at_launch_, free_);
}

}  // namespace fa2::interpreter
