// A block of 16 x 16 scores has 64 words of 32 bits; two scores share a word.
#include <reference/dropout.h>

#include <cmath>

namespace fa2::reference {
namespace {

constexpr int kRoundsOfStream = 10, kRoundsOfNumber = 7;

std::uint32_t low(std::uint64_t x) {
  return static_cast<std::uint32_t>(x & 0xffffffff);
}
std::uint32_t high(std::uint64_t x) {
  return static_cast<std::uint32_t>(x >> 32);
}

}  // namespace

PhiloxWords philox(PhiloxWords counter, std::array<std::uint32_t, 2> key, int rounds) {
  for (; rounds > 0; --rounds) {
    const std::uint64_t left = std::uint64_t{counter[0]} * 0xD2511F53,
                        right = std::uint64_t{counter[2]} * 0xCD9E8D57;
    counter = {high(right) ^ counter[1] ^ key[0], low(right), high(left) ^ counter[3] ^ key[1], low(left)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

DropoutMask::DropoutMask(const Dropout& dropout)
    : threshold_(std::round(std::ldexp(double{dropout.probability}, 32))) {
  const std::uint64_t seed = dropout.state != nullptr ? dropout.state[0] : dropout.seed;
  const std::uint64_t offset = dropout.state != nullptr ? dropout.state[1] : dropout.offset;
  stream_ = philox({low(offset), high(offset), 0, 0}, {low(seed), high(seed)}, kRoundsOfStream);
}

bool DropoutMask::keeps(std::int64_t head, std::int64_t query, std::int64_t key) const {
  // A position may be negative.
  const std::int64_t q = (query >> 4) * 8 + (query & 7), k = key / 16 * 4 + key % 8 / 2;
  const PhiloxWords words = philox({low(static_cast<std::uint64_t>(q)), low(static_cast<std::uint64_t>(k)),
                                    stream_[0] + low(static_cast<std::uint64_t>(head)), stream_[1]},
                                   {0, 0}, kRoundsOfNumber);
  const std::uint32_t word = words[static_cast<std::size_t>(key % 2 * 2 + (query >> 3 & 1))];
  const std::uint32_t number = key / 8 % 2 == 0 ? word : (word >> 16) + (word << 16);
  return number >= threshold_;
}

}  // namespace fa2::reference
