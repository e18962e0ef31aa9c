// Words of device memory by which streams of different ranks wait for each other.
#pragma once

#include <fa2/types.h>

#include <cstdint>

namespace fa2 {

/// 0 or 1. One rank's stream raises it; the stream of the rank whose memory has it waits for that, and lowers it.
using StreamFlag = std::uint32_t;

/// Sets `flag` after the work on `stream`. The flag may be another rank's, which then sees the results of that work. `one`: a flag of
/// this rank that is always 1.
void raise(StreamFlag* flag, const StreamFlag* one, Stream stream);

/// Lets later work on `stream` begin only when `flag` is set, and clears it then.
void await(StreamFlag* flag, Stream stream);

/// As await(), on the interpreter. Returns whether the flag was set; if not, the caller asks again.
bool has_come(StreamFlag* flag);

}  // namespace fa2
