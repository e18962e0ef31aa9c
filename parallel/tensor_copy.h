// Copies of strided tensors.
#pragma once

#include <fa2/merge.h>
#include <planning/plan.h>
#include <planning/row_kernels.h>

#include <functional>
#include <memory>

namespace fa2 {

/// A copy of a tensor (batch, heads, rows, columns): a merge of one part, whose weight of 1 keeps all bits but those of NaN.
struct TensorCopy {
  MergeProblem problem;
  std::shared_ptr<const Plan> plan;
};

/// `problem` must not be empty. `kernel` loads the kernel of merges.
TensorCopy tensor_copy(const MergeProblem& problem, RowAlignment alignment,
                       const std::function<std::shared_ptr<const Kernel>(const RowKernel&)>& kernel);

/// Enqueues a copy. `zero`: a float 0 in device memory, the LSE of the part.
void enqueue(const TensorCopy& copy, const void* from, const TensorStrides& from_strides, void* to,
             const TensorStrides& to_strides, const float* zero, Stream stream);

}  // namespace fa2
