// Merges of parts of outputs, sums of parts of gradients, and copies of strided tensors, which are merges of one part.
#pragma once

#include <fa2/merge.h>
#include <planning/plan.h>
#include <planning/row_kernels.h>
#include <planning/sum_parts.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace fa2 {

using LoadRowKernel = std::function<std::shared_ptr<const Kernel>(const RowKernel&)>;

/// Returns the plan of a merge, which must not be empty. `kernel` loads that of merges.
std::shared_ptr<const Plan> merge_of(const MergeProblem& problem, RowAlignment alignment,
                                     const LoadRowKernel& kernel);

/// Returns the plan of a sum, which must not be empty. `kernel` loads that of sums.
std::shared_ptr<const Plan> sum_of(const SumProblem& problem, RowAlignment alignment,
                                   const LoadRowKernel& kernel);

/// A copy of a tensor (batch, heads, rows, columns). The one part has a weight of 1, so all bits stay, but those of NaN.
struct TensorCopy {
  MergeProblem problem;
  std::shared_ptr<const Plan> plan;  ///< of a merge of one part
};

inline constexpr std::int32_t kMostCopiedColumns = 512;  ///< of a merge

/// Enqueues a copy. `zero`: a float 0 in device memory, the LSE of the part.
void enqueue(const TensorCopy& copy, const void* from, const TensorStrides& from_strides, void* to,
             const TensorStrides& to_strides, const float* zero, Stream stream);

}  // namespace fa2
