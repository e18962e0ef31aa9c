// Reduces bytes16_any_order to bytes16, because row kernels accept any order of strides.
#include <generator/kernel_kind.h>
#include <planning/row_kernels.h>

namespace fa2 {
namespace {

RowKernel kernel_of(KernelId kernel, const PlannedProblem& problem, std::int32_t head_dim,
                    std::int32_t head_dim_v) {
  AttentionProblem rows;
  rows.dtype = problem.dtype;
  rows.head_dim = head_dim;
  rows.head_dim_v = head_dim_v;
  PlanOptions options = problem;
  if (options.row_alignment == RowAlignment::bytes16_any_order) options.row_alignment = RowAlignment::bytes16;
  return {{rows.normalized(), options}, default_config(kernel)};
}

}  // namespace

RowKernel append_kernel(const PlannedProblem& problem) {
  return kernel_of(KernelId::append, problem, problem.head_dim, problem.head_dim_v);
}

RowKernel merge_kernel(const PlannedProblem& problem) {
  return kernel_of(KernelId::merge, problem, problem.normalized().head_dim_v, 0);
}

}  // namespace fa2
