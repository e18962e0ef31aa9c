// The kernels that a program is likely to need soon.
#pragma once

#include <api/precompile.h>
#include <api/requests.h>
#include <autotune/config_choice.h>

#include <vector>

namespace fa2 {

/// Returns the kernels that follow a forward, the most likely first. If it keeps the LSE and has a backward, these are the backward's
/// at its sizes, because a training step goes on so. Else they are the forward's at any size: a prompt is followed by single queries
/// and by prompts of other lengths. A kernel may appear twice.
std::vector<KernelRequest> likely_next(const PlanRequest& forward, bool keeps_lse, ConfigChooser& chooser);

}  // namespace fa2
