// The key tiles of a fused backward: their order, and how many thread blocks share one.
#pragma once

#include <fa2/config.h>
#include <fa2/problem.h>

#include <cstdint>

namespace fa2 {

/// Returns how many key/value heads have interleaved tiles, in the launch of a kernel whose blocks own keys.
std::int64_t kv_heads_per_section(const AttentionProblem& problem, const KernelConfig& config);

/// The parts of key tiles, each of which a thread block computes (templates/attention/backward/key_parts.cuh).
struct KeyParts {
  std::int64_t count = 1;           ///< blocks per key tile
  std::int64_t steps = 0x40000000;  ///< query blocks of a part, over all heads of the group
  std::int64_t section_tiles = 1;   ///< tiles whose first parts precede their second ones
};

/// Returns the parts with which a launch of `fused`, the config of a kernel that accumulates dQ, is expected to end first on
/// `sm_count` SMs. One part per tile if that is about as fast, if bits may not depend on the batch (ordered_dq_dk_dv), or if
/// sm_count = 0. The parts take no more memory than 128 MB or 1.5 times the dQ accumulator, whichever is more.
KeyParts key_parts(const AttentionProblem& problem, const KernelConfig& fused, int sm_count);

}  // namespace fa2
