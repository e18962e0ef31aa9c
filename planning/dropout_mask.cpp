// The rules, the operands and the kernel of dropout_mask().
#include <fmt/format.h>
#include <generator/kernel_kind.h>
#include <planning/dropout_mask.h>
#include <planning/step_request.h>

#include <utility>

namespace fa2 {

RowKernel dropout_mask_kernel() {
  return {PlannedProblem().normalized(), default_config(KernelId::dropout_mask)};
}

std::array<Operand, 2> dropout_mask_operands(const AttentionProblem& problem, const DropoutMaskArgs& args) {
  AttentionArgs attention;
  attention.dropout = args.dropout;
  const Operand all{.name = "mask",
                    .element = ElementType::u8,
                    .access = Access::write,
                    .data = args.mask,
                    .extents = {problem.batch, problem.heads_q, problem.seqlen_q, problem.seqlen_k}};
  return {all, operands_of(problem, attention)[Role::dropout_state]};
}

Violations violations_of_dropout_mask(const AttentionProblem& problem, const DropoutMaskArgs& args) {
  Violations found;
  const std::uint64_t* const state = args.dropout.state;
  if (!problem.dropout) found.push_back({"dropout", "false", "must be true: there is no mask without"});
  if (problem.query_pieces)
    found.push_back({"query_pieces", "true",
                     "must be false: ask for the whole sequence's mask, of which pieces are rows"});
  check_dropout(found, problem, args.dropout);
  if (reinterpret_cast<std::uintptr_t>(state) % sizeof *state != 0)
    found.push_back({"dropout.state", fmt::format("{}", fmt::ptr(state)), "must be a multiple of 8 bytes"});
  if (args.mask == nullptr) found.push_back({"mask", "null", "must point to the tensor: it has elements"});
  return found;
}

Plan plan_dropout_mask(const AttentionProblem& problem, std::shared_ptr<const Kernel> kernel) {
  Plan plan;
  plan.problem = {problem, {}};
  plan.add(kernels::dropout_mask.make_step(
      {.problem = problem, .config = kernels::dropout_mask.default_config, .kernel = std::move(kernel)}));
  return plan;
}

}  // namespace fa2
