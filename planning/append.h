// The launch that appends to a cache.
#pragma once

#include <fa2/append.h>
#include <generator/kernel_spec.h>
#include <operation/operands/operands.h>
#include <operation/rules/violations.h>
#include <runtime/kernel.h>

#include <cstdint>
#include <vector>

namespace fa2 {

/// Whether there is no sequence.
bool is_empty(const AppendProblem& problem);

/// Of one head: of all sequences.
std::int64_t new_rows_of(const AppendProblem& problem);
std::int64_t queries_of(const AppendProblem& problem);

/// Rows that a sequence may have.
std::int64_t capacity_of(const AppendProblem& problem);

/// Every rule that the problem breaks, by itself and with these arguments.
Violations violations_of(const AppendProblem& problem);
Violations violations_of(const AppendProblem& problem, const AppendArgs& args, OperandList operands);

/// Of a valid problem that is not empty: tensors, then tables of numbers. Q that turns in place is one operand, q_out.
std::vector<Operand> operands_of(const AppendProblem& problem, const AppendArgs& args);

/// Of the kernel that moves such operands fastest.
KernelSpec append_spec(const AppendProblem& problem, OperandList operands, const Arch& arch);

/// In the current context, of a device of `arch`.
void launch_append(const Kernel& kernel, const AppendProblem& problem, const AppendArgs& args,
                   OperandList operands, Stream stream);

}  // namespace fa2
