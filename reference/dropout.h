// The dropout mask on the CPU, independent of the kernels: it computes the random number of each probability by itself.
#pragma once

#include <fa2/args.h>
#include <fa2/problem.h>

#include <array>
#include <cstdint>

namespace fa2::reference {

using PhiloxWords = std::array<std::uint32_t, 4>;

/// Returns the words of Philox 4x32 after `rounds` rounds (Salmon, Moraes, Dror and Shaw, SC 2011).
PhiloxWords philox(PhiloxWords counter, std::array<std::uint32_t, 2> key, int rounds);

/// The probabilities that a launch keeps. Seed and offset come from `dropout`, or from its `state`, which
/// must be host memory.
class DropoutMask {
 public:
  explicit DropoutMask(const Dropout& dropout);

  /// Returns whether a probability is kept. `head`: batch * heads_q + query head.
  bool keeps(std::int64_t head, std::int64_t query, std::int64_t key) const;
  /// Returns the fraction of probabilities kept on average.
  double share_kept() const { return 1 - threshold_ / 4294967296.0; }

 private:
  double threshold_;
  PhiloxWords stream_;
};

}  // namespace fa2::reference
