// What dropout's seed and offset come to, on the host: templates/attention/common/dropout.cuh does the same on the device.
#pragma once

#include <array>
#include <cstdint>

namespace fa2 {

/// The upper half of the counters of a launch's random numbers; a head adds its number to the first.
using DropoutStream = std::array<std::uint32_t, 2>;

/// The first words of Philox4x32-10 with `seed` as its key and `offset` as the lower half of its counter.
DropoutStream dropout_stream(std::uint64_t seed, std::uint64_t offset);

}  // namespace fa2
