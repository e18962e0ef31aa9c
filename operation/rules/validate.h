// The rules every problem and every call must obey. Host only: nothing is dereferenced.
#pragma once

#include <fa2/args.h>
#include <fa2/errors.h>
#include <fa2/problem.h>
#include <generator/kernel_spec.h>
#include <operation/operands/operands.h>
#include <runtime/device.h>

#include <string>
#include <vector>

namespace fa2 {

/// Every rule the problem breaks; empty, and nothing allocated, if it breaks none.
std::vector<Violation> violations_of(const AttentionProblem& problem);
std::vector<Violation> violations_of(const PlannedProblem& problem);

/// Every rule the arguments break for a VALID problem, its plan's promises among them: null and misaligned pointers, strides that leave the
/// address space, overlaps, the scale. Empty, and nothing allocated, if they break none. Runs on every call.
///
/// A problem without output elements (batch or seqlen_q 0) reads and writes nothing: its pointers and strides
/// are not looked at; nor are those of K and V if they have no rows.
///
/// Rows of O: each used stride must be at least the extent covered by the smaller ones (nested strides).
/// Interleavings that are free of overlap without being nested are refused. What is written against
/// everything else: byte ranges must be disjoint. Two strided operands may share a range where they occupy
/// different columns of the same rows, as slices of one packed QKVO buffer do, or different parts of the same heads or batches:
/// see disjoint_columns().
std::vector<Violation> violations_of(const PlannedProblem& problem, const AttentionArgs& args);

/// The same of operands that were made before.
std::vector<Violation> violations_of(const PlannedProblem& problem, const AttentionArgs& args,
                                     OperandList operands);

/// The same of a backward that computes `gradients`.
std::vector<Violation> violations_of(const PlannedProblem& problem, const Gradients& gradients,
                                     const BackwardArgs& args, OperandList operands);

/// What the same rules say of any kernel's operands, whose rows are aligned to one element.
std::vector<Violation> violations_of_operands(OperandList operands);

/// What no backward computes of a valid problem, or not these gradients.
std::vector<Violation> violations_of_backward(const AttentionProblem& problem,
                                              const Gradients& gradients = {});

/// Every rule that a call of attention() breaks, which promises nothing: of a problem that is not valid too, as far as
/// its shapes can be told.
std::vector<Violation> violations_of_call(const AttentionProblem& problem, const AttentionArgs& args);

/// Every rule that lists of problems and of plans' options break, and every name that is no arch's, by their indices.
std::vector<Violation> violations_of(const std::vector<AttentionProblem>& problems,
                                     const std::vector<PlanOptions>& plans,
                                     const std::vector<std::string>& archs);

/// Every operand with elements that points to what a kernel on `device` may not use. Device memory of that
/// device, managed memory and pinned host memory are fine. `facts_of` is asked once per pointer.
std::vector<Violation> violations_of_residency(OperandList operands, int device,
                                               PointerFacts (*facts_of)(const void*) = pointer_facts);

/// @throws InvalidRequest with what was `found`, and what lies where no kernel on `device`, whose context is current,
/// may use it.
void require_usable(std::vector<Violation> found, OperandList operands, int device);

/// What holds of one call, and a plan for it may be promised: RowAlignment looks at every pointer and used stride
/// (extent > 1) of the strided operands that a kernel touches.
PlanOptions options_kept_by(const AttentionProblem& problem, OperandList operands);

/// @throws InvalidRequest with everything that violations_of() finds.
void require_valid(const PlannedProblem& problem);
void require_valid(const PlannedProblem& problem, const AttentionArgs& args);

/// @throws InvalidRequest if the problem is wrong, and then with what is wrong with the arguments besides.
void require_valid_problem_of(const AttentionProblem& problem, const AttentionArgs& args);

}  // namespace fa2
