// Plans of append(), and its rules.
#pragma once

#include <fa2/append.h>
#include <operation/operands/operands.h>
#include <operation/rules/violations.h>
#include <planning/plan.h>
#include <planning/row_kernels.h>
#include <runtime/kernel.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace fa2 {

/// Returns whether there is no sequence.
bool is_empty(const AppendProblem& problem);

/// Returns the head dim of V.
std::int32_t value_dim_of(const AppendProblem& problem);

/// Returns the rows of one cache entry: a page, or without pages a sequence.
std::int64_t entry_rows_of(const AppendProblem& problem);

/// Returns the rows per head of k_new, and of q, over all sequences.
std::int64_t new_rows_of(const AppendProblem& problem);
std::int64_t queries_of(const AppendProblem& problem);

/// Returns the most rows that a sequence may have in the cache.
std::int64_t capacity_of(const AppendProblem& problem);

/// Returns every rule that the problem breaks, by itself and with these arguments. violations_of_call() checks the arguments of an
/// invalid problem too, if it has shapes.
Violations violations_of(const AppendProblem& problem);
Violations violations_of(const AppendProblem& problem, const AppendArgs& args, OperandList operands);
Violations violations_of_call(const AppendProblem& problem, const AppendArgs& args);

/// Returns the tensors, then the tables. The problem must have shapes. If Q is rotated in place, q_out stands for both.
std::vector<Operand> operands_of(const AppendProblem& problem, const AppendArgs& args);

/// Returns the fastest kernel that can process the operands.
RowKernel append_kernel_of(const AppendProblem& problem, OperandList operands);

/// Returns the plan. The problem must be valid and not empty.
Plan plan_append(const AppendProblem& problem, std::shared_ptr<const Kernel> kernel);

}  // namespace fa2
