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

/// How many query heads' tiles are interleaved; packed heads count as one. 1 without a mask: a head's keys
/// and values are read by one head's tiles in a row. Under a causal mask tiles differ in length, and what
/// counts is that the last ones to start are short: equal sections, whole query groups of them, of at most 64
/// heads for main loop 80, and for 90, which is fast enough to wait for memory, of what L2 holds, 16 to 32
/// heads (docs/kernel-notes.md). With varlen, heads of one sequence.
int heads_per_section(const AttentionProblem& problem, const KernelConfig& config);

/// |scale| * log2(e) as a normal, finite number: a scale of 0 gives uniform attention without 0 * inf.
float scale_log2(float scale);

}  // namespace fa2
