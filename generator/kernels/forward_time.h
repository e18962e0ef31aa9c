// How long a forward takes on an H100 or H200, for the heuristics: a choice may not depend on the GPU.
#pragma once

#include <fa2/config.h>
#include <fa2/problem.h>

namespace fa2 {

/// Returns the estimated time of a config of forward_sm90; microseconds. It counts rounds of tiles, keys and bytes, and knows
/// nothing of how well a loop is scheduled: only configs of similar loops compare (docs/kernel-notes.md).
double estimated_time(const AttentionProblem& problem, const KernelConfig& config);

}  // namespace fa2
