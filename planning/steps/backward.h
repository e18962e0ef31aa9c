// The common part of the backward kernels' launches.
#pragma once

#include <planning/step_request.h>

#include <cstddef>
#include <templates/attention/common/params.cuh>

namespace fa2::backward_steps {

/// Returns a launch of one block per tile that the kernel owns. Its parameters hold BackwardParams at `offset`. The kind must
/// add its parameters and `fill`.
Step of_tiles(const StepRequest& request, std::size_t offset);

/// Returns the parameters that every call of the kernel has.
BackwardParams constants_of(const StepRequest& request);

/// Adds what constants_of() leaves out, except for delta: launch() puts the scratch there.
void add_call(BackwardParams& params, const Call& call);

}  // namespace fa2::backward_steps
