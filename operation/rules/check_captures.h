// What a call gives to texts of scores.
#pragma once

#include <operation/operands/operands.h>
#include <operation/rules/violations.h>

namespace fa2 {

/// Checks that a call has the captures of its problem's texts, each with elements of its type, and none in memory that the call
/// writes.
void check_captures(Violations& found, const AttentionProblem& problem, const AttentionArgs& args,
                    OperandList operands);

/// Checks that gradients of captures exist, if they are wanted at all.
void check_capture_gradients(Violations& found, const AttentionProblem& problem, const Gradients& gradients);

/// Checks the captures of a backward's call, and their gradients.
void check_captures(Violations& found, const AttentionProblem& problem, const Gradients& gradients,
                    const BackwardArgs& args, OperandList operands);

/// Checks that a GPU's kernels reach the captured tensors.
void check_captured_residency(Violations& found, const AttentionProblem& problem, const AttentionArgs& args,
                              int device);

/// Checks that a GPU's kernels reach the gradients of captures.
void check_gradient_residency(Violations& found, const AttentionProblem& problem, const BackwardArgs& args,
                              int device);

}  // namespace fa2
