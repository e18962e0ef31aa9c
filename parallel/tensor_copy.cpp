#include <parallel/tensor_copy.h>
#include <planning/merge.h>

namespace fa2 {

std::shared_ptr<const Plan> merge_of(const MergeProblem& problem, RowAlignment alignment,
                                     const LoadRowKernel& kernel) {
  AttentionProblem rows;
  rows.dtype = problem.dtype;
  rows.head_dim = problem.head_dim;
  rows.lse_base = problem.lse_base;
  return std::make_shared<const Plan>(plan_merge(problem, kernel(merge_kernel({rows, {alignment}}))));
}

std::shared_ptr<const Plan> sum_of(const SumProblem& problem, RowAlignment alignment,
                                   const LoadRowKernel& kernel) {
  AttentionProblem rows;
  rows.dtype = problem.dtype;
  rows.head_dim = problem.head_dim;
  rows.head_dim_v = problem.head_dim_v;
  return std::make_shared<const Plan>(plan_sum(problem, kernel(sum_kernel({rows, {alignment}}))));
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
