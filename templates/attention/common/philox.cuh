// Philox 4x32, a counter-based random number generator (Salmon, Moraes, Dror and Shaw, "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011).
#pragma once

#include "ptx/math.cuh"

namespace fa2 {

struct PhiloxWords {
  u32 word[4];
};

/// Returns the random words for `counter`. Seven rounds pass all statistical tests in the paper; its default
/// is ten.
template <int kRounds>
FA2_DEVICE PhiloxWords philox(PhiloxWords counter, u32 key0, u32 key1) {
  u32(&c)[4] = counter.word;
  FA2_UNROLL
  for (int round = 0; round < kRounds; ++round) {
    const ptx::WideProduct first = ptx::mul_wide_u32(c[0], 0xd2511f53u);
    const ptx::WideProduct second = ptx::mul_wide_u32(c[2], 0xcd9e8d57u);
    c[0] = second.high ^ c[1] ^ key0;
    c[1] = second.low;
    c[2] = first.high ^ c[3] ^ key1;
    c[3] = first.low;
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  return counter;
}

}  // namespace fa2
