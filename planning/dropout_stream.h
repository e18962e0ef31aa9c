// Dropout's random stream, computed on the host. templates/attention/common/dropout.cuh computes the same on the device.
#pragma once

#include <array>
#include <cstdint>

namespace fa2 {

/// The upper half of the Philox counters of a launch. Each head adds its index to the first word.
using DropoutStream = std::array<std::uint32_t, 2>;

/// Returns the first words of Philox4x32-10 with `seed` as its key and `offset` as the lower half of its counter.
DropoutStream dropout_stream(std::uint64_t seed, std::uint64_t offset);

}  // namespace fa2
