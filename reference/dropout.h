// Dropout's mask on the CPU, written apart from the kernels': the numbers in it are looked up one by one.
#pragma once

#include <fa2/args.h>
#include <fa2/problem.h>

#include <array>
#include <cstdint>

namespace fa2::reference {

using PhiloxWords = std::array<std::uint32_t, 4>;

/// Philox 4x32 of so many rounds (Salmon, Moraes, Dror and Shaw, SC 2011).
PhiloxWords philox(PhiloxWords counter, std::array<std::uint32_t, 2> key, int rounds);

/// Which probabilities of a launch are kept; seed and offset are `dropout`'s own, `state` on the host if there is one.
class DropoutMask {
 public:
  explicit DropoutMask(const Dropout& dropout);

  /// `head`: batch * heads_q + query head.
  bool keeps(std::int64_t head, std::int64_t query, std::int64_t key) const;
  /// On average, of all.
  double share_kept() const { return 1 - threshold_ / 4294967296.0; }

 private:
  double threshold_;
  PhiloxWords stream_;
};

}  // namespace fa2::reference
