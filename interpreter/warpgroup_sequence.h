// What the four warps of a warpgroup must all do, in the same order: wgmma, its fences and waits, setmaxnreg.
#pragma once

#include <cstdint>
#include <deque>
#include <interpreter/machine.cuh>
#include <string>
#include <vector>

namespace fa2::interpreter {

/// An instruction as a warp executes it.
struct WarpgroupStep {
  const char* name;
  Site site;
  std::uint64_t operands[2] = {};  ///< that the four warps must agree on
};

class WarpgroupSequence {
 public:
  explicit WarpgroupSequence(int warps)
      : done_(static_cast<std::size_t>(warps)), groups_((done_.size() + 3) / 4) {}
  void reset();

  /// `warp` executes `step`. Returns the rule that was broken, empty if none was.
  std::string follow(int warp, const WarpgroupStep& step);
  /// All threads have ended. The site of a step that not all warps have executed, if there is one.
  std::string finish(Site& site) const;

 private:
  struct Group {
    std::uint64_t first = 0;  ///< number of the oldest step that is remembered
    std::deque<WarpgroupStep> steps;
  };

  std::vector<std::uint64_t> done_;  ///< steps of each warp
  std::vector<Group> groups_;
};

}  // namespace fa2::interpreter
