// Division by numbers that the host knows before a launch. Host code includes this file too.
#pragma once

namespace fa2 {

/// A divisor, prepared so that kernels multiply: a division of unknown numbers takes a block some 130 cycles.
struct Divisor {
  unsigned value;
  unsigned multiplier;  ///< floor(2^(31 + shift) / value) + 1
  unsigned shift;       ///< the least with 2^shift >= value
};

/// `value`: at most 2^31; 0 if nothing is divided by it.
constexpr Divisor divisor_of(unsigned value) {
  Divisor by{value, 0, 0};
  if (value == 0) return by;
  while ((1ull << by.shift) < value) ++by.shift;
  by.multiplier = static_cast<unsigned>((1ull << (31 + by.shift)) / value + 1);
  return by;
}

/// Returns n / by.value, for n below 2^31.
constexpr unsigned quotient(unsigned n, const Divisor& by) {
  return static_cast<unsigned>(static_cast<unsigned long long>(2 * n) * by.multiplier >> 32) >> by.shift;
}

/// How the heads of one side are grouped into sections, whose tiles are interleaved (scheduler.cuh).
struct HeadSections {
  Divisor heads[2];      ///< per section; in the last one, if that has fewer
  Divisor tiles;         ///< per section; only if all sequences have equally many
  Divisor heads_of_one;  ///< heads of one batch entry
};

}  // namespace fa2
