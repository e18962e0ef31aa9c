// The registers of a block, which setmaxnreg moves between warps.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace fa2::interpreter {

class RegisterPool {
 public:
  /// `per_thread`: registers at launch. `wake(warp)` resumes a warp that waited for registers.
  RegisterPool(int warps, int per_thread, std::function<void(int warp)> wake);
  void reset();

  /// Return the violated PTX rule; empty if none. After an increase the warp may have to wait.
  std::string decrease(int warp, int per_thread);
  std::string increase(int warp, int per_thread);
  bool waits(int warp) const { return warps_[static_cast<std::size_t>(warp)].wants > 0; }

  /// Returns a description: "setmaxnreg.inc to 240 (the warp has 168, of 168 at launch; the block has 0 free
  /// per warp)".
  std::string describe(int warp) const;

 private:
  struct Warp {
    int has = 0;
    int wants = 0;  ///< requested registers per thread; 0: none
  };
  bool take(Warp& warp);

  int at_launch_;
  std::function<void(int warp)> wake_;
  int free_ = 0;  ///< free registers, in units of one per thread of a warp
  std::vector<Warp> warps_;
};

}  // namespace fa2::interpreter
