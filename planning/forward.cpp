// A forward has one kernel and one step; or two of each, if the first widens keys and values.
#include <generator/kernel_kind.h>
#include <planning/forward.h>
#include <planning/key_map.h>
#include <planning/step_request.h>
#include <planning/text_params.h>
#include <planning/widened_keys.h>

#include <optional>
#include <utility>

namespace fa2 {
namespace {

LoadedKernel attention_kernel(const Planner& planner) {
  const ConfigChoice choice = planner.choose(KernelPass::forward);
  const auto of_partial = planner.mask_is_partial
                              ? ConfigChooser::for_partial_mask(choice, planner.problem, planner.target)
                              : std::nullopt;
  return planner.pick_first(of_partial.value_or(choice));
}

}  // namespace

Step forward_step(const AttentionProblem& problem, const KernelConfig& config,
                  std::shared_ptr<const Kernel> kernel, int sm_count) {
  Step step = kind_of(config).make_step(
      {.problem = problem, .config = config, .kernel = std::move(kernel), .sm_count = sm_count});
  set_texts(step, problem);
  return step;
}

PlannedProblem tuned_problem(const PlannedProblem& p, const Target& target, const ConfigChooser& chooser) {
  return widens_keys(p, target, chooser) ? widened_problem(p) : p;
}

std::vector<LoadedKernel> forward_kernels(const Planner& planner) {
  const PlannedProblem& p = planner.problem;
  const bool widens = widens_keys(p, planner.target, planner.chooser);
  const Planner of_attention = widens ? planner.of(widened_problem(p)) : planner;
  std::vector<LoadedKernel> kernels;
  if (widens) kernels.push_back(planner.of(widen_kernel(p).problem).pick(widen_choice()));
  LoadedKernel attention = attention_kernel(of_attention);
  if (const KernelConfig& config = attention.report.config; config.key_map != 0)
    kernels.push_back(of_attention.pick(key_map_choice(config)));
  kernels.push_back(std::move(attention));
  return kernels;
}

void add_forward(Plan& plan, const AttentionProblem& problem, Step attention,
                 std::shared_ptr<const Kernel> key_map) {
  plan.workspace.least_scratch = kMostForwardCounters;
  if (key_map != nullptr)
    add_key_map(plan, problem, attention, std::move(key_map), plan.workspace.scratch_bytes);
  attention.scratch.begin = plan.workspace.scratch_bytes;
  plan.add(std::move(attention));
}

Plan plan_forward(const Planner& planner, const std::string& notes) {
  const int sms = planner.usable_sms();
  std::vector<LoadedKernel> kernels = forward_kernels(planner);
  Plan plan;
  plan.problem = planner.problem;
  plan.explanation = explanation_of(planner, kernels, notes);
  if (!has_output(plan.problem)) return plan;
  const bool has_map = kernels.back().report.config.key_map != 0, widens = kernels.size() > (has_map ? 2 : 1);
  if (widens) add_widening(plan, std::move(kernels.front().kernel));
  const AttentionProblem& problem = widens ? *plan.widened : plan.problem;
  Step attention = forward_step(problem, kernels.back().report.config, std::move(kernels.back().kernel), sms);
  add_forward(plan, problem, std::move(attention),
              has_map ? std::move(kernels[kernels.size() - 2].kernel) : nullptr);
  return plan;
}

}  // namespace fa2
