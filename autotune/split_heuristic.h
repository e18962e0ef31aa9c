// Configurations of the kernel of few queries (templates/attention/forward/sm80/split_kernel.cuh).
#pragma once

#include <core/arch.h>
#include <fa2/config.h>
#include <generator/kernel_spec.h>

#include <cstdint>
#include <vector>

namespace fa2 {

/// Of the largest tile.
inline constexpr int kMostSplitRows = 32;

/// Neither few nor many, of one head: split_configs() tells three ranges apart.
std::int64_t some_keys(const AttentionProblem& problem);

/// Best first; none for more rows than its tiles have. They may be invalid.
std::vector<KernelConfig> split_configs(const PlannedProblem& problem, const AttentionTraits& traits,
                                        const Arch& arch);

/// Whether it is faster than split keys of main loop 90, where both run: what that costs beside reading keys and values
/// counts.
bool reads_little(const PlannedProblem& problem);

}  // namespace fa2
