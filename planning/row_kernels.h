// What specialises the kernels of append() and merge(), a thread of which moves eight columns of a row.
#pragma once

#include <fa2/config.h>
#include <generator/kernel_spec.h>

namespace fa2 {

/// The only kernel for rows of some dtype, head dims and alignment, whatever else a problem has.
struct RowKernel {
  PlannedProblem problem;  ///< with the rest at its defaults
  KernelConfig config;

  KernelSpec spec(const Arch& arch) const { return {traits_of(problem), config, arch}; }
};

/// New rows into a cache of this problem's K and V.
RowKernel append_kernel(const PlannedProblem& problem);

/// Parts of this problem's O.
RowKernel merge_kernel(const PlannedProblem& problem);

}  // namespace fa2
