// Counts the shared memory wavefronts of each source line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <interpreter/machine.cuh>
#include <map>
#include <utility>
#include <vector>

namespace fa2::interpreter {

/// Wavefronts of shared memory for one source line, as executed and as they would be without conflicts.
struct BankCount {
  std::uint64_t wavefronts = 0;
  std::uint64_t least = 0;
};
/// By file and line. The kernel owns the file's name.
using BankCounts = std::map<std::pair<const char*, int>, BankCount>;

class BankConflicts {
 public:
  explicit BankConflicts(int warps) : warps_(static_cast<std::size_t>(warps)) {}

  /// Counts the addresses that one instruction presents together.
  void count(const unsigned* addresses, int count, int bytes, Site site);
  /// Notes a plain access of one lane. The k-th access of every lane at a line counts as one instruction.
  void note_plain(int thread, unsigned address, int bytes, Site site);
  /// Counts what was noted for a warp. Its lanes must have reached the same instruction.
  void count_plain(int warp);

  const BankCounts& counts() const { return counts_; }

 private:
  struct Line {
    int bytes = 0;
    std::vector<unsigned> lanes[32];  ///< addresses of each lane, in order
  };
  using Lines = std::map<std::pair<const char*, int>, Line>;

  std::vector<Lines> warps_;
  BankCounts counts_;
};

}  // namespace fa2::interpreter
