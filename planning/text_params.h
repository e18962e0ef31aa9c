// What kernels with texts of scores or pieces of queries get in front of AttentionParams.
#pragma once

#include <fa2/args.h>
#include <fa2/problem.h>
#include <planning/step.h>
#include <runtime/kernel.h>

#include <vector>

namespace fa2 {

/// Returns the arguments of a call of attention or of its backward.
const AttentionArgs& attention_args_of(const Call& call);

/// Sets what the step's kernel gets, and the layout of a map that it needs or makes.
void set_texts(Step& step, const AttentionProblem& problem);

/// Inserts what the step's kernel gets into the parameters of one launch.
void insert_text_params(ParamsBuffer& params, const Step& step, const Call& call);

/// Appends the memory of captured tensors, and of the map.
void add_text_memory(std::vector<MemoryRange>& ranges, const Step& step, const Call& call);

}  // namespace fa2
