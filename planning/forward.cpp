// A forward has one kernel and one step.
#include <generator/kernel_kind.h>
#include <planning/forward.h>
#include <planning/step_request.h>

#include <utility>

namespace fa2 {

Step forward_step(const AttentionProblem& problem, const KernelConfig& config,
                  std::shared_ptr<const Kernel> kernel, int sm_count) {
  return kind_of(config).make_step(
      {.problem = problem, .config = config, .kernel = std::move(kernel), .sm_count = sm_count});
}

std::vector<LoadedKernel> forward_kernels(const Planner& planner) {
  return {planner.pick_first(
      planner.chooser.choose(planner.problem, planner.target, planner.search(KernelPass::forward)))};
}

Plan plan_forward(const Planner& planner, const std::string& notes) {
  std::vector<LoadedKernel> kernels = forward_kernels(planner);
  Plan plan;
  plan.problem = planner.problem;
  plan.explanation = explanation_of(planner, kernels, notes);
  if (has_output(plan.problem))
    plan.add(forward_step(plan.problem, kernels[0].report.config, std::move(kernels[0].kernel),
                          planner.target.sm_count));
  return plan;
}

}  // namespace fa2
