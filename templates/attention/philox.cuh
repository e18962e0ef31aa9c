// Philox 4x32, random words that are a function of their number (Salmon, Moraes, Dror and Shaw, "Parallel random numbers:
// as easy as 1, 2, 3", SC 2011).
#pragma once

#include "ptx/keywords.cuh"

namespace fa2 {

struct PhiloxWords {
  u32 word[4];
};

/// The words of number `counter`. Seven rounds pass the tests that the paper puts ten through.
template <int kRounds>
FA2_DEVICE PhiloxWords philox(PhiloxWords counter, u32 key0, u32 key1) {
  u32(&c)[4] = counter.word;
  FA2_UNROLL
  for (int round = 0; round < kRounds; ++round) {
    const u64 first = static_cast<u64>(0xd2511f53u) * c[0], second = static_cast<u64>(0xcd9e8d57u) * c[2];
    c[0] = static_cast<u32>(second >> 32) ^ c[1] ^ key0;
    c[1] = static_cast<u32>(second);
    c[2] = static_cast<u32>(first >> 32) ^ c[3] ^ key1;
    c[3] = static_cast<u32>(first);
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  return counter;
}

}  // namespace fa2
