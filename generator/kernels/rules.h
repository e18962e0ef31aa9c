// What the rules of all kernel kinds are written with.
#pragma once

#include <core/arch.h>
#include <fmt/format.h>

#include <string>

namespace fa2 {

/// head_dim as it lies in shared memory and registers: products take 16 columns a step.
constexpr int padded_dim(int dim) {
  return (dim + 15) / 16 * 16;
}

/// Beyond what any GPU holds, and far from overflowing the estimates.
inline constexpr int kMostTile = 1024;
inline constexpr int kMostBlocks = 8;  ///< per SM

/// Every rule that a config breaks, not the first alone. Texts are made only of broken ones.
class BrokenRules {
 public:
  template <class... Args>
  void expect(bool holds, fmt::format_string<const Args&...> rule, const Args&... args) {
    if (!holds) text_ += (text_.empty() ? "" : "; ") + fmt::format(rule, args...);
  }
  bool empty() const { return text_.empty(); }
  /// "stages = 1, must be 2..8; warps = 6 are no whole warpgroups of 4"
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Shared memory of `blocks` blocks that an SM of `arch` holds at once, `bytes` each.
struct SharedMemoryNeed {
  const Arch& arch;
  int bytes;
  int blocks;

  constexpr bool fits_block() const { return bytes <= arch.shared_per_block; }
  constexpr bool fits() const {
    return fits_block() && (bytes + arch.shared_reserved) * blocks <= arch.shared_per_sm;
  }
  void check(BrokenRules& rules) const {
    rules.expect(fits_block(), "needs {} bytes of shared memory, {} has {} per block", bytes, arch.name,
                 arch.shared_per_block);
    rules.expect(!fits_block() || fits(),
                 "{} blocks of {} bytes of shared memory do not fit the {} bytes of one SM of {}", blocks,
                 bytes, arch.shared_per_sm, arch.name);
  }
};

}  // namespace fa2
