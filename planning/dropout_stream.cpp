// Philox 4x32 (Salmon, Moraes, Dror and Shaw, SC 2011), ten rounds.
#include <planning/dropout_stream.h>

namespace fa2 {

DropoutStream dropout_stream(std::uint64_t seed, std::uint64_t offset) {
  constexpr std::uint64_t kMultipliers[] = {0xd2511f53, 0xcd9e8d57};
  constexpr std::uint32_t kSteps[] = {0x9e3779b9, 0xbb67ae85};
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  std::array<std::uint32_t, 4> c = {low(offset), high(offset), 0, 0};
  std::uint32_t key[] = {low(seed), high(seed)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = kMultipliers[0] * c[0], second = kMultipliers[1] * c[2];
    c = {high(second) ^ c[1] ^ key[0], low(second), high(first) ^ c[3] ^ key[1], low(first)};
    for (int i = 0; i < 2; ++i) key[i] += kSteps[i];
  }
  return {c[0], c[1]};
}

}  // namespace fa2
