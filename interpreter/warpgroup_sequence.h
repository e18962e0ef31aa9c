// Instructions that the four warps of a warpgroup must all execute in one order: wgmma, its fences and waits,
// setmaxnreg.
#pragma once

#include <cstdint>
#include <deque>
#include <interpreter/machine.cuh>
#include <string>
#include <vector>

namespace fa2::interpreter {

/// An instruction that a warp executes.
struct WarpgroupStep {
  const char* name;
  Site site;
  std::uint64_t operands[2] = {};  ///< operands that the four warps must agree on
};

class WarpgroupSequence {
 public:
  explicit WarpgroupSequence(int warps)
      : done_(static_cast<std::size_t>(warps)), groups_((done_.size() + 3) / 4) {}
  void reset();

  /// Notes that `warp` executes `step`. Returns the violated PTX rule; empty if none.
  std::string follow(int warp, const WarpgroupStep& step);
  /// Checks that all warps have executed every step. All threads must have ended. `site` receives a step that
  /// some have not.
  std::string finish(Site& site) const;

 private:
  struct Group {
    std::uint64_t first = 0;  ///< number of the oldest step kept
    std::deque<WarpgroupStep> steps;
  };

  std::vector<std::uint64_t> done_;  ///< number of steps of each warp
  std::vector<Group> groups_;
};

}  // namespace fa2::interpreter
