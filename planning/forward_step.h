// The launch of a forward: its grid and its parameters.
#pragma once

#include <fa2/config.h>
#include <fa2/problem.h>
#include <planning/step.h>
#include <runtime/kernel.h>
#include <runtime/launch_counters.h>

#include <cstdint>
#include <memory>

namespace fa2 {

/// Words that its launches count in: the tiles that blocks have taken, or the parts of each tile that have ended. 0: none.
std::uint32_t counter_words(const KernelConfig& config);

/// Those of a device, for launches that have no workspace: of one word, or of as many as parts are counted in, which makes them
/// fewer, some 20 MB.
CounterSizes counter_sizes(std::uint32_t words);

/// `problem` is valid and normalized, with at least one query, and why_rejected() does not refuse `config` for
/// it. `counters`: of the device, of counter_words(), may be null if there are none. Parameters: AttentionParams for main loop
/// 80, AttentionParamsSm81 and AttentionParamsSm90 for the others.
Step forward_step(const AttentionProblem& problem, const KernelConfig& config,
                  std::shared_ptr<const Kernel> kernel, int sm_count,
                  std::shared_ptr<LaunchCounters> counters);

}  // namespace fa2
