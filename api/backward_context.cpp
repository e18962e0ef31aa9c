// The doors of the backward.
#include <api/boundary.h>
#include <api/context.h>
#include <api/plan.h>
#include <operation/rules/validate.h>
#include <planning/backward.h>
#include <runtime/graph.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fa2 {
namespace {

/// Returns everything wrong with the problem and its options, by themselves and for a backward.
std::vector<Violation> all_violations_of(const PlannedProblem& problem, const Gradients& gradients) {
  std::vector<Violation> found = violations_of(problem);
  return found.empty() ? violations_of_backward(problem, gradients) : found;
}

}  // namespace

void require_valid_backward(const PlannedProblem& problem, const Gradients& gradients) {
  std::vector<Violation> found = all_violations_of(problem, gradients);
  if (!found.empty()) throw InvalidRequest(std::move(found));
}

std::optional<BackwardPlan> Context::Impl::backward_plan_of_call(const AttentionProblem& problem,
                                                                 const BackwardArgs& args,
                                                                 const BackwardOperands& operands,
                                                                 Stream stream) {
  const PlannedProblem p(problem.normalized(), options_kept_by(problem, operands));
  const Gradients gradients = kept_by(problem, given_gradients(args));
  const int ordinal = p.batch > 0 ? current_device() : 0;
  if (auto plan = backward_plans.find({{p, ordinal}, gradients})) return *plan;
  std::vector<Violation> found = violations_of(p, gradients, args, operands);
  if (!found.empty()) throw InvalidRequest(std::move(found));
  if (p.batch == 0) return std::nullopt;
  if (ordinal != kInterpreterDevice && is_capturing(stream)) throw_capturing(p);
  return backward_plan(p, ordinal, gradients, std::string(reason_for(p)));
}

void Context::attention_backward(const AttentionProblem& problem, const BackwardArgs& args,
                                 Stream stream) try {
  require_valid_backward({problem, {}});
  BackwardOperands operands = backward_operands_of(problem, args);
  const auto plan = impl_->backward_plan_of_call(problem, args, operands, stream);
  if (!plan) return;
  operands.set_workspace_bytes(plan->workspace_bytes());
  run(plan->impl(), args, operands, stream);
} catch (...) {
  rethrow_as_error();
}

void Context::map_blocks(const AttentionProblem& problem, const BackwardArgs& args, const BlockMap& map,
                         Stream stream) try {
  require_valid_backward({problem, {}});
  const auto plan = impl_->backward_plan_of_call(problem, args, backward_operands_of(problem, args), stream);
  if (plan) plan->map_blocks(args, map, stream);
} catch (...) {
  rethrow_as_error();
}

void map_blocks(const AttentionProblem& problem, const BackwardArgs& args, const BlockMap& map,
                Stream stream) {
  Context::default_context().map_blocks(problem, args, map, stream);
}

BackwardPlan Context::backward_plan(const AttentionProblem& problem, int device, const Gradients& gradients,
                                    const PlanOptions& options) try {
  const PlannedProblem planned(problem, options);
  require_valid_backward(planned, gradients);
  return impl_->backward_plan(planned.normalized(), device == -1 ? current_device() : device,
                              kept_by(problem, gradients), "");
} catch (...) {
  rethrow_as_error();
}

Explanation Context::explain_backward(const AttentionProblem& problem, const std::string& arch_name,
                                      const Gradients& gradients, const PlanOptions& options) try {
  const PlannedProblem planned(problem, options);
  const Target target{require_arch(arch_name, all_violations_of(planned, gradients)), "", 0};
  const PlannedProblem p = planned.normalized();
  const Planner planner = impl_->planner_for(p, target);
  std::string notes;
  const std::vector<LoadedKernel> kernels = backward_kernels(planner, kept_by(problem, gradients), notes);
  return explanation_of(planner, kernels, notes);
} catch (...) {
  rethrow_as_error();
}

void attention_backward(const AttentionProblem& problem, const BackwardArgs& args, Stream stream) {
  Context::default_context().attention_backward(problem, args, stream);
}

}  // namespace fa2
