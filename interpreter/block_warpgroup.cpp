// Instructions that a warpgroup's warps execute together.
#include <interpreter/block.h>

namespace fa2::interpreter {

void Block::follow_warpgroup(int first, const WarpgroupStep& step) {
  require(sequence_.follow(first / 32, step), step.site);
}

void Block::wgmma(int first, const WgmmaShape& shape, const WgmmaOperands* const* lanes, Site site) {
  const std::uint64_t a = lanes[0]->a == nullptr ? lanes[0]->a_descriptor : 0;
  follow_warpgroup(first, {"wgmma.mma_async", site, {a, lanes[0]->b_descriptor}});
  require(mma_.issue(first / 32, shape, lanes, site), site);
}

void Block::wgmma_fence(int first, Site site) {
  follow_warpgroup(first, {"wgmma.fence", site});
  mma_.fence(first / 32);
}

void Block::wgmma_commit_group(int first, Site site) {
  follow_warpgroup(first, {"wgmma.commit_group", site});
  mma_.commit_group(first / 32);
}

void Block::wgmma_wait_group(int first, int pending, Site site) {
  follow_warpgroup(first, {"wgmma.wait_group", site});
  require(mma_.wait_group(first / 32, pending), site);
}

void Block::setmaxnreg(int first, int registers, bool increases, Site site) {
  follow_warpgroup(first, {"setmaxnreg", site, {static_cast<std::uint64_t>(registers), increases}});
  const int warp = first / 32;
  require(increases ? registers_.increase(warp, registers) : registers_.decrease(warp, registers), site);
}

void Block::await_registers(Site site) {
  if (registers_.waits(current_ / 32)) wait(State::for_registers, 0, site);
}

void Block::wake_for_registers(int warp) {
  for (int thread = warp * 32; thread < warp * 32 + 32; ++thread) {
    if (threads_[static_cast<std::size_t>(thread)].state == State::for_registers) wake(thread);
  }
}

}  // namespace fa2::interpreter
