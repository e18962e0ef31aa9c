// The specs of the kernels of append(), of merge() and of sums over ranks, which depend only on dtype, head dims, alignment and, for
// append(), kv_type.
#pragma once

#include <fa2/config.h>
#include <generator/kernel_spec.h>

namespace fa2 {

/// The only kernel for one dtype, head dims, alignment and kv_type.
struct RowKernel {
  PlannedProblem problem;  ///< all other fields have their defaults
  KernelConfig config;

  KernelSpec spec(const Arch& arch) const { return {traits_of(problem), config, arch}; }
};

/// Returns the kernel that appends to a cache of this problem's K and V.
RowKernel append_kernel(const PlannedProblem& problem);

/// Returns the kernel that merges partial outputs like this problem's O.
RowKernel merge_kernel(const PlannedProblem& problem);

/// Returns whether gradients of this problem are parts, which sum_kernel() adds.
bool has_gradient_parts(const AttentionProblem& problem);

/// Returns the kernel that adds this problem's gradients in parts.
RowKernel sum_kernel(const PlannedProblem& problem);

/// Returns the kernel that puts messages into memory of other ranks, the same for all problems.
RowKernel put_kernel();

}  // namespace fa2
