// Reduces bytes16_any_order to bytes16, because row kernels accept any order of strides.
#include <generator/kernel_kind.h>
#include <planning/row_kernels.h>

namespace fa2 {
namespace {

/// `rows`: a problem with the fields that the kernel reads. `options`: the caller's.
RowKernel row_kernel(KernelId kernel, const AttentionProblem& rows, PlanOptions options) {
  if (options.row_alignment == RowAlignment::bytes16_any_order) options.row_alignment = RowAlignment::bytes16;
  return {{rows.normalized(), options}, default_config(kernel)};
}

}  // namespace

RowKernel append_kernel(const PlannedProblem& problem) {
  AttentionProblem rows;
  rows.dtype = problem.dtype;
  rows.head_dim = problem.head_dim;
  rows.head_dim_v = problem.head_dim_v;
  // append() writes a latent's values as V, and as K the columns that are keys alone.
  if (problem.values_in_keys && problem.head_dim > problem.head_dim_v) rows.head_dim -= problem.head_dim_v;
  if (problem.kv_type != KvType::scaled) rows.kv_type = problem.kv_type;
  return row_kernel(KernelId::append, rows, problem);
}

RowKernel merge_kernel(const PlannedProblem& problem) {
  AttentionProblem rows;
  rows.dtype = problem.dtype;
  rows.head_dim = problem.normalized().head_dim_v;
  rows.lse_base = problem.lse_base;
  return row_kernel(KernelId::merge, rows, problem);
}

bool has_gradient_parts(const AttentionProblem& problem) {
  return problem.float32_dk_dv || problem.float32_dq;
}

RowKernel put_kernel() {
  return {PlannedProblem().normalized(), default_config(KernelId::put_messages)};
}

RowKernel sum_kernel(const PlannedProblem& problem) {
  AttentionProblem rows;
  rows.dtype = problem.dtype;
  rows.head_dim = problem.head_dim;
  rows.head_dim_v = problem.head_dim_v;
  return row_kernel(KernelId::sum_parts, rows, problem);
}

}  // namespace fa2
