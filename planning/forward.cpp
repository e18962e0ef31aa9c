// A forward has one kernel and one step; or two of each, if the first widens keys and values.
#include <generator/kernel_kind.h>
#include <planning/captures.h>
#include <planning/forward.h>
#include <planning/step_request.h>
#include <planning/widened_keys.h>

#include <utility>

namespace fa2 {
namespace {

LoadedKernel attention_kernel(const Planner& planner) {
  return planner.pick_first(planner.choose(KernelPass::forward));
}

}  // namespace

Step forward_step(const AttentionProblem& problem, const KernelConfig& config,
                  std::shared_ptr<const Kernel> kernel, int sm_count) {
  Step step = kind_of(config).make_step(
      {.problem = problem, .config = config, .kernel = std::move(kernel), .sm_count = sm_count});
  set_captures(step, problem);
  return step;
}

PlannedProblem tuned_problem(const PlannedProblem& p, const Target& target, const ConfigChooser& chooser) {
  return widens_keys(p, target, chooser) ? widened_problem(p) : p;
}

std::vector<LoadedKernel> forward_kernels(const Planner& planner) {
  const PlannedProblem& p = planner.problem;
  if (!widens_keys(p, planner.target, planner.chooser)) return {attention_kernel(planner)};
  return {planner.of(widen_kernel(p).problem).pick(widen_choice()),
          attention_kernel(planner.of(widened_problem(p)))};
}

Plan plan_forward(const Planner& planner, const std::string& notes) {
  const int sms = planner.usable_sms();
  std::vector<LoadedKernel> kernels = forward_kernels(planner);
  Plan plan;
  plan.problem = planner.problem;
  plan.explanation = explanation_of(planner, kernels, notes);
  if (!has_output(plan.problem)) return plan;
  const bool widens = kernels.size() > 1;
  if (widens) add_widening(plan, std::move(kernels.front().kernel));
  Step attention = forward_step(widens ? *plan.widened : plan.problem, kernels.back().report.config,
                                std::move(kernels.back().kernel), sms);
  attention.scratch.begin = plan.workspace.scratch_bytes;
  plan.add(std::move(attention));
  return plan;
}

}  // namespace fa2
