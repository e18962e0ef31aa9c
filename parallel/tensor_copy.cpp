#include <parallel/tensor_copy.h>
#include <planning/merge.h>

namespace fa2 {

TensorCopy tensor_copy(const MergeProblem& problem, RowAlignment alignment,
                       const std::function<std::shared_ptr<const Kernel>(const RowKernel&)>& kernel) {
  AttentionProblem rows;
  rows.dtype = problem.dtype;
  rows.head_dim = problem.head_dim;
  return {problem,
          std::make_shared<const Plan>(plan_merge(problem, kernel(merge_kernel({rows, {alignment}}))))};
}

void enqueue(const TensorCopy& copy, const void* from, const TensorStrides& from_strides, void* to,
             const TensorStrides& to_strides, const float* zero, Stream stream) {
  MergeArgs args;
  args.parts = from, args.parts_strides = from_strides;
  args.lse_parts = zero;
  args.out = to, args.out_strides = to_strides;
  launch(*copy.plan, args, operands_of(copy.problem, args), nullptr, stream);
}

}  // namespace fa2
