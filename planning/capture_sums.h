// Gradients of captured tensors, as launches begin and sum them.
#pragma once

#include <planning/plan.h>
#include <runtime/stream_memory.h>

#include <optional>
#include <vector>

namespace fa2 {

/// Returns the launches that replace that of backward_captures if sums must not depend on their order (CaptureSums). Each sum takes 8
/// bytes of Call::capture_sums.
std::vector<Step> bitwise_capture_steps(const Step& step);

/// Sets the gradients of captures that the call wants to 0, unless a kernel stores each element. Returns memory for sums in fixed point, also 0, if the plan's launches
/// need it; `call` gets its address.
std::optional<StreamMemory> start_capture_gradients(const Plan& plan, Call& call, Stream stream);

}  // namespace fa2
