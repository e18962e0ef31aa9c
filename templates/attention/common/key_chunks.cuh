// The chunks of chunked local attention. Host code includes this file too.
#pragma once

#include "attention/common/divisor.cuh"

namespace fa2 {

/// Chunks of equal length, in positions below 2^31. A chunk begins at position 0.
struct KeyChunks {
  Divisor length;

  /// Returns where the chunk of `position` begins; 0 if the position is negative.
  constexpr int begin_of(int position) const {
    if (position < 0) return 0;
    return static_cast<int>(quotient(static_cast<unsigned>(position), length) * length.value);
  }
  /// Returns where the chunk of `position` ends, at most `last`; 0 if the position is negative.
  constexpr int end_of(int position, int last) const {
    if (position < 0) return 0;
    const int begin = begin_of(position), size = static_cast<int>(length.value);
    return last - begin > size ? begin + size : last;  // begin + size may overflow int
  }
};

}  // namespace fa2
