// From a problem and its arguments to the grid and the parameters of one launch.
#pragma once

#include <api/operands.h>
#include <fa2/args.h>
#include <fa2/config.h>
#include <fa2/problem.h>
#include <runtime/kernel.h>
#include <runtime/launch_counters.h>

#include <cstdint>
#include <memory>
#include <templates/attention/params.cuh>

namespace fa2 {

/// What every launch of a plan shares.
struct Launch {
  KernelConfig config;
  std::uint32_t grid = 0;                    ///< blocks; 0: the output has no element, nothing to launch
  AttentionParams params{};                  ///< all but pointers, strides, scale and empty_row_lse
  std::shared_ptr<LaunchCounters> counters;  ///< where the config's schedule asks for them
};

/// Whether its launches count the tiles that blocks have taken.
bool needs_counter(const KernelConfig& config);

/// `problem` is valid and normalized, which why_rejected() does not refuse `config` for. `counters`: of the
/// device, may be null unless needs_counter().
Launch launch_of(const AttentionProblem& problem, const KernelConfig& config, int sm_count,
                 std::shared_ptr<LaunchCounters> counters);

/// What a launch computes on; all of it outlives the call.
struct Call {
  const AttentionProblem& problem;  ///< the plan's
  const AttentionArgs& args;        ///< valid for it
  const Operands& operands;         ///< of both
};

/// The complete parameters of one call of main loop 80.
AttentionParams params_of(const Launch& launch, const AttentionProblem& problem, const AttentionArgs& args);

/// The same for main loop 90, with tensor maps of the current device; all but next_tile.
AttentionParamsSm90 params_sm90_of(const Launch& launch, const Call& call);

/// Launches in the current context, `times` times. `memory`: for the interpreter.
void start(const Kernel& kernel, const Launch& launch, const Call& call, Stream stream,
           const LaunchMemory* memory, int times = 1);

/// How many query heads' tiles are interleaved; packed heads count as one. 1 without a mask: a head's keys
/// and values are read by one head's tiles in a row. Under a causal mask tiles differ in length, and what
/// counts is that the last ones to start are short: equal sections, whole query groups of them, of at most 64
/// heads for main loop 80, and for 90, which is fast enough to wait for memory, of what L2 holds, 16 to 32
/// heads (docs/kernel-notes.md).
int heads_per_section(const AttentionProblem& problem, const KernelConfig& config);

/// |scale| * log2(e) as a normal, finite number: a scale of 0 gives uniform attention without 0 * inf.
float scale_log2(float scale);

}  // namespace fa2
