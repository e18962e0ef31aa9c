// The launch that merges attention over parts of the keys.
#pragma once

#include <fa2/merge.h>
#include <generator/kernel_spec.h>
#include <operation/operands/operands.h>
#include <operation/rules/violations.h>
#include <runtime/kernel.h>

#include <vector>

namespace fa2 {

/// Whether there is nothing to write.
bool is_empty(const MergeProblem& problem);

/// Every rule that the problem breaks, by itself and with these arguments.
Violations violations_of(const MergeProblem& problem);
Violations violations_of(const MergeArgs& args, OperandList operands);

/// The parts, O, the parts' LSE and LSE, of a valid problem that is not empty.
std::vector<Operand> operands_of(const MergeProblem& problem, const MergeArgs& args);

/// Of the kernel that moves such operands fastest.
KernelSpec merge_spec(const MergeProblem& problem, OperandList operands, const Arch& arch);

/// In the current context.
void launch_merge(const Kernel& kernel, const MergeProblem& problem, const MergeArgs& args,
                  OperandList operands, Stream stream);

}  // namespace fa2
