// Plans of merge(), and its rules.
#pragma once

#include <fa2/merge.h>
#include <operation/operands/operands.h>
#include <operation/rules/violations.h>
#include <planning/plan.h>
#include <planning/row_kernels.h>
#include <runtime/kernel.h>

#include <memory>
#include <vector>

namespace fa2 {

/// Returns whether there is nothing to write.
bool is_empty(const MergeProblem& problem);

/// Returns every rule that the problem breaks, and that the arguments break. violations_of_call() checks the arguments of an
/// invalid problem too, if it has shapes.
Violations violations_of(const MergeProblem& problem);
Violations violations_of(const MergeArgs& args, OperandList operands);
Violations violations_of_call(const MergeProblem& problem, const MergeArgs& args);

/// Returns the partial outputs, O, the partial LSEs and LSE. The problem must have shapes, and few enough parts to list.
std::vector<Operand> operands_of(const MergeProblem& problem, const MergeArgs& args);

/// Returns the fastest kernel that can process the operands.
RowKernel merge_kernel_of(const MergeProblem& problem, OperandList operands);

/// Returns the plan. The problem must be valid and not empty.
Plan plan_merge(const MergeProblem& problem, std::shared_ptr<const Kernel> kernel);

}  // namespace fa2
