// What texts of scores capture, as parameters of kernels.
#pragma once

#include <fa2/problem.h>
#include <planning/step.h>
#include <runtime/kernel.h>

#include <vector>

namespace fa2 {

/// Sets what the step's kernel captures.
void set_captures(Step& step, const AttentionProblem& problem);

/// Inserts the captures of a call into the parameters of one launch.
void insert_captures(ParamsBuffer& params, const Step& step, const Call& call);

/// Appends the memory of captured tensors.
void add_captured_memory(std::vector<MemoryRange>& ranges, const Step& step, const Call& call);

}  // namespace fa2
