// The common part of the forward kernels' launches.
#pragma once

#include <planning/step_request.h>

#include <cstddef>
#include <cstdint>
#include <templates/attention/common/params.cuh>

namespace fa2::forward_steps {

/// Returns a launch of one block per query tile. The kind must add its parameters and `fill`.
Step of_tiles(const StepRequest& request);

/// Returns the number of blocks that the SMs of the request run at once.
std::uint32_t resident_blocks(const StepRequest& request);

/// Turns `step` into a split-KV launch: its grid, its counters, and scratch for partial outputs. Returns the
/// kernel's WorkShares, which must lie at `offset` of its parameters. `teams` is the number of partial
/// outputs per block.
WorkShares split_keys(const StepRequest& request, int teams, std::size_t offset, Step& step);

}  // namespace fa2::forward_steps
