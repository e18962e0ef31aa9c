// The operands and the kernel of a sum.
#include <generator/kernel_kind.h>
#include <planning/step_request.h>
#include <planning/sum_parts.h>

#include <array>
#include <utility>

namespace fa2 {

std::vector<Operand> operands_of(const SumProblem& p, const SumArgs& args) {
  const auto parts = [&](std::string_view name, const float* data, std::int64_t rows) {
    return optional_operand(name, Access::read, data, ElementType::f32, {1, p.entries, rows, p.row_floats()});
  };
  const auto sums = [&](std::string_view name, void* data, std::int64_t heads, std::int64_t dim,
                        const TensorStrides& strides) {
    return strided_operand(name, Access::write, data, p.float32_sums ? ElementType::f32 : element_of(p.dtype),
                           {p.entries, heads, p.rows, dim}, strides);
  };
  std::vector<Operand> operands{
      parts("own", args.own, p.own_rows), parts("arrivals", args.arrivals, p.arrival_rows),
      optional_operand("table", Access::read, args.table, ElementType::i32, {1, 1, p.parts, p.rows}),
      sums("dk", args.dk, p.heads, p.head_dim, args.dk_strides)};
  if (p.heads_v > 0) operands.push_back(sums("dv", args.dv, p.heads_v, p.head_dim_v, args.dv_strides));
  return operands;
}

Plan plan_sum(const SumProblem& problem, std::shared_ptr<const Kernel> kernel) {
  Plan plan;
  plan.add(kernels::sum_parts.make_step(
      {.problem = problem, .config = kernels::sum_parts.default_config, .kernel = std::move(kernel)}));
  return plan;
}

}  // namespace fa2
