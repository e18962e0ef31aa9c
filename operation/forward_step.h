// The launch of a forward: its grid and its parameters.
#pragma once

#include <fa2/config.h>
#include <fa2/problem.h>
#include <operation/step.h>
#include <runtime/kernel.h>
#include <runtime/launch_counters.h>

#include <memory>

namespace fa2 {

/// Whether its launches count the tiles that blocks have taken.
bool needs_counter(const KernelConfig& config);

/// `problem` is valid and normalized, with at least one query, and why_rejected() does not refuse `config` for
/// it. `counters`: of the device, may be null unless needs_counter(). Parameters: AttentionParams for main loop
/// 80, AttentionParamsSm90 for 90.
Step forward_step(const AttentionProblem& problem, const KernelConfig& config,
                  std::shared_ptr<const Kernel> kernel, int sm_count,
                  std::shared_ptr<LaunchCounters> counters);

}  // namespace fa2
