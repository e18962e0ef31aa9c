// The registers of a block, as setmaxnreg moves them from warp to warp.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace fa2::interpreter {

class RegisterPool {
 public:
  /// `per_thread` registers at launch. `wake(warp)`: a warp that waited has its registers.
  RegisterPool(int warps, int per_thread, std::function<void(int warp)> wake);
  void reset();

  /// Return the rule that was broken, empty if none was. After an increase the warp may have to wait.
  std::string decrease(int warp, int per_thread);
  std::string increase(int warp, int per_thread);
  bool waits(int warp) const { return warps_[static_cast<std::size_t>(warp)].wants > 0; }

  /// "setmaxnreg.inc to 240 (it has 168, and 0 a thread of one warp are free)".
  std::string describe(int warp) const;

 private:
  struct Warp {
    int has = 0;
    int wants = 0;  ///< 0: nothing
  };
  bool take(Warp& warp);

  int at_launch_;
  std::function<void(int warp)> wake_;
  int free_ = 0;  ///< in the unit "one register for each thread of a warp"
  std::vector<Warp> warps_;
};

}  // namespace fa2::interpreter
