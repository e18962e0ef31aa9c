// From a problem and its arguments to the grid and the parameters of one launch.
#pragma once

#include <fa2/args.h>
#include <fa2/config.h>
#include <fa2/problem.h>

#include <cstdint>
#include <templates/attention/params.cuh>

namespace fa2 {

/// What every launch of a plan shares.
struct Launch {
  std::uint32_t grid = 0;    ///< blocks; 0: the output has no element, nothing to launch
  AttentionParams params{};  ///< all but pointers, strides, scale and empty_row_lse
};

/// `problem` is valid and normalized.
Launch launch_of(const AttentionProblem& problem, const KernelConfig& config);

/// The complete parameters of one call.
AttentionParams params_of(const Launch& launch, const AttentionProblem& problem, const AttentionArgs& args);

/// How many query heads' tiles are interleaved. 1 without a mask: a head's keys and values are read by one
/// head's tiles in a row. Under a causal mask tiles differ in length, and what counts is that the last ones
/// to start are short: equal sections of at most 64 heads, whole query groups of them (docs/kernel-notes.md).
int heads_per_section(const AttentionProblem& problem);

/// |scale| * log2(e) as a normal, finite number: a scale of 0 gives uniform attention without 0 * inf.
float scale_log2(float scale);

}  // namespace fa2
