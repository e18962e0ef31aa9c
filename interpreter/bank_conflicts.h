// How many wavefronts of shared memory the accesses of each source line take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <interpreter/machine.cuh>
#include <map>
#include <utility>
#include <vector>

namespace fa2::interpreter {

/// Wavefronts of shared memory that the accesses of one source line took, and would have taken without
/// conflicts.
struct BankCount {
  std::uint64_t wavefronts = 0;
  std::uint64_t least = 0;
};
/// By file and line; the file's name belongs to the kernel.
using BankCounts = std::map<std::pair<const char*, int>, BankCount>;

class BankConflicts {
 public:
  explicit BankConflicts(int warps) : warps_(static_cast<std::size_t>(warps)) {}

  /// Addresses that one instruction presents together.
  void count(const unsigned* addresses, int count, int bytes, Site site);
  /// A plain access of one lane: the k-th access of every lane at a line counts as one instruction.
  void note_plain(int thread, unsigned address, int bytes, Site site);
  /// The warp has come together: what was noted of it is counted.
  void count_plain(int warp);

  const BankCounts& counts() const { return counts_; }

 private:
  struct Line {
    int bytes = 0;
    std::vector<unsigned> lanes[32];  ///< each lane's addresses in turn
  };
  using Lines = std::map<std::pair<const char*, int>, Line>;

  std::vector<Lines> warps_;
  BankCounts counts_;
};

}  // namespace fa2::interpreter
