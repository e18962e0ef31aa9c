// The rules that every problem and every call must obey. Dereferences no pointer of a call.
#pragma once

#include <fa2/args.h>
#include <fa2/errors.h>
#include <fa2/problem.h>
#include <generator/kernel_spec.h>
#include <operation/operands/operands.h>
#include <runtime/device.h>

#include <string>
#include <string_view>
#include <vector>

namespace fa2 {

struct PrecompileOptions;  // fa2/context.h

/// Returns every rule that the problem breaks. Allocates nothing if it breaks none.
std::vector<Violation> violations_of(const AttentionProblem& problem);
std::vector<Violation> violations_of(const PlannedProblem& problem);

/// Returns every rule that the arguments break, including the guarantees of PlanOptions: null and misaligned pointers, strides that
/// leave the address space, overlaps, the scale. The problem must be valid. Runs in every call, and allocates nothing if no rule is
/// broken.
///
/// A problem without output elements (batch or seqlen_q is 0) reads and writes nothing, so its pointers and strides are ignored. If
/// K and V have no rows, theirs are ignored.
///
/// Rows of O: each used stride must be at least the extent that the smaller ones cover (nested strides). Rows that interleave
/// without overlap are rejected too. Everything written must be disjoint from all other operands. Two strided operands may share a
/// byte range if they lie in different columns of the same rows, like slices of one packed QKVO buffer, or in different parts of
/// the same heads or batch entries: see disjoint_columns().
std::vector<Violation> violations_of(const PlannedProblem& problem, const AttentionArgs& args);

/// Like violations_of(problem, args), for a caller that has the operands.
std::vector<Violation> violations_of(const PlannedProblem& problem, const AttentionArgs& args,
                                     OperandList operands);

/// Like violations_of(problem, args, operands), for a backward that computes `gradients`.
std::vector<Violation> violations_of(const PlannedProblem& problem, const Gradients& gradients,
                                     const BackwardArgs& args, OperandList operands);

/// Returns every rule on memory that the operands of any kernel break. Rows may have the alignment of one element.
std::vector<Violation> violations_of_operands(OperandList operands);

/// Returns why no backward computes these gradients of a valid problem.
std::vector<Violation> violations_of_backward(const AttentionProblem& problem,
                                              const Gradients& gradients = {});

/// Returns every rule that a call of attention() breaks, with RowAlignment::element. If the problem is invalid, checks the
/// arguments too, as long as their shapes are known.
std::vector<Violation> violations_of_call(const AttentionProblem& problem, const AttentionArgs& args);

/// Returns every rule that a problem of precompile() breaks, with `backward` also those of a backward.
std::vector<Violation> violations_of_precompiled(const AttentionProblem& problem, bool backward);

/// Returns every rule that problems and the `plans` of precompile()'s options break, and every unknown arch. Fields carry the
/// index: "problems[2].mask".
std::vector<Violation> violations_of(const std::vector<AttentionProblem>& problems,
                                     const PrecompileOptions& options, const std::vector<std::string>& archs);

/// Checks that a kernel on `device` may use this memory: device memory of that device, managed memory and pinned host memory.
void check_residency(std::vector<Violation>& found, std::string_view name, const void* data, int device,
                     PointerFacts (*facts_of)(const void*) = pointer_facts);

/// Returns a violation for each operand whose memory a kernel on `device` may not use. Calls `facts_of`
/// once per pointer.
std::vector<Violation> violations_of_residency(OperandList operands, int device,
                                               PointerFacts (*facts_of)(const void*) = pointer_facts);

/// @throws InvalidRequest with the violations in `found` and those of violations_of_residency(). The context of `device` must be
/// current.
void require_usable(std::vector<Violation> found, OperandList operands, int device);

/// Returns the strictest PlanOptions that this call satisfies. RowAlignment depends on each pointer and used stride (extent > 1) of
/// the strided operands that a kernel touches.
PlanOptions options_kept_by(const AttentionProblem& problem, OperandList operands);

/// @throws InvalidRequest with everything that violations_of() finds.
void require_valid(const PlannedProblem& problem);
void require_valid(const PlannedProblem& problem, const AttentionArgs& args);

/// @throws InvalidRequest if the problem is invalid; the error lists the violations of the arguments too.
void require_valid_problem_of(const AttentionProblem& problem, const AttentionArgs& args);

}  // namespace fa2
