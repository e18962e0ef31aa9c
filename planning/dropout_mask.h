// Plans of dropout_mask().
#pragma once

#include <fa2/args.h>
#include <operation/operands/operands.h>
#include <operation/rules/violations.h>
#include <planning/plan.h>
#include <planning/row_kernels.h>
#include <runtime/kernel.h>

#include <array>
#include <cstdint>
#include <memory>

namespace fa2 {

/// The arguments of one call.
struct DropoutMaskArgs {
  Dropout dropout;
  std::uint8_t* mask = nullptr;  ///< contiguous (batch, heads_q, seqlen_q, seqlen_k)
};

/// Returns the only kernel, which serves every problem.
RowKernel dropout_mask_kernel();

/// Returns the mask and the optional state. The problem must have a query and a key.
std::array<Operand, 2> dropout_mask_operands(const AttentionProblem& problem, const DropoutMaskArgs& args);

/// Returns every rule that the arguments break for a valid problem.
Violations violations_of_dropout_mask(const AttentionProblem& problem, const DropoutMaskArgs& args);

/// Returns the plan. `problem` must be normalized, and have a query and a key.
Plan plan_dropout_mask(const AttentionProblem& problem, std::shared_ptr<const Kernel> kernel);

}  // namespace fa2
