// Context's backward: plans of several kernels.
#include <api/backward_plan.h>
#include <api/boundary.h>
#include <api/context.h>
#include <fmt/format.h>
#include <operation/backward_step.h>
#include <operation/validate.h>
#include <runtime/graph.h>

#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace fa2 {
namespace {

/// @throws InvalidRequest with all that is wrong with the problem, its options, and of it for a backward.
void require_valid_backward(const PlannedProblem& problem, const Gradients& gradients = {}) {
  std::vector<Violation> found = violations_of(problem);
  if (found.empty()) found = violations_of_backward(problem, gradients);
  if (!found.empty()) throw InvalidRequest(std::move(found));
}

bool needs_delta(const Gradients& gradients) {
  return gradients.dq || gradients.dk || gradients.d_sinks;
}

/// In the order of their launches.
std::vector<KernelPass> passes_of(const PlannedProblem& problem, const Gradients& gradients,
                                  const ConfigChooser& chooser, const Target& target) {
  const auto can = [&](KernelPass pass) { return !chooser.choose_backward(problem, pass, target).empty(); };
  std::vector<KernelPass> passes;
  if (needs_delta(gradients)) passes.push_back(KernelPass::delta);
  const bool may_sum =
      gradients.determinism == Determinism::fastest && has_tiles(problem, KernelPass::dq_dk_dv);
  if (gradients.dq && gradients.dk && gradients.dv && may_sum && can(KernelPass::dq_dk_dv)) {
    passes.insert(passes.end(), {KernelPass::dq_dk_dv, KernelPass::dq_convert});
  } else {
    if (gradients.dq) passes.push_back(KernelPass::dq);
    if (gradients.dk && gradients.dv && can(KernelPass::dk_dv)) {
      passes.push_back(KernelPass::dk_dv);
    } else {
      if (gradients.dk) passes.push_back(KernelPass::dk);
      if (gradients.dv) passes.push_back(KernelPass::dv);
    }
  }
  if (gradients.d_sinks) passes.push_back(KernelPass::d_sinks);
  std::erase_if(passes, [&](KernelPass pass) { return !has_tiles(problem, pass); });
  return passes;
}

struct BuiltKernel {
  KernelConfig config;
  std::shared_ptr<const Kernel> kernel;
};

}  // namespace

BackwardPlan Context::Impl::backward_plan(const PlannedProblem& problem, int ordinal,
                                          const Gradients& gradients, const std::string& notes) {
  return backward_plans.get({{problem, ordinal}, gradients},
                            [&] { return make_backward_plan(problem, ordinal, gradients, notes); });
}

BackwardPlan Context::Impl::make_backward_plan(const PlannedProblem& problem, int ordinal,
                                               const Gradients& gradients, const std::string& notes) {
  const Device& gpu = device(ordinal);
  const Target target = target_of(gpu);
  auto plan = std::make_shared<BackwardPlan::Impl>();
  plan->problem = problem;
  plan->gradients = gradients;
  plan->device = ordinal;
  plan->checks_tables = checks_tables(problem, gpu);
  plan->scratch = scratch_pool(gpu);
  plan->explanation = {.problem = problem,
                       .options = problem,
                       .arch = std::string(gpu.arch.name),
                       .device = target.device,
                       .kernels = {},
                       .notes = notes};
  std::vector<BuiltKernel> built;
  BackwardScratch scratch = scratch_for(problem);
  for (const KernelPass pass : passes_of(problem, gradients, chooser, target)) {
    std::vector<ConfigChoice> choices = chooser.choose_backward(problem, pass, target);
    if (pass == KernelPass::dq_convert) choices = {conversion_of(built.back().config)};
    if (choices.empty())
      throw Unavailable(fmt::format("no kernel of pass {} computes \"{}\" on {}", static_cast<int>(pass),
                                    to_string(problem), gpu.arch.name));
    const auto alternatives = [&] { return std::vector(std::next(choices.begin()), choices.end()); };
    built.push_back(build_first(problem, choices.front(), alternatives, [&](const ConfigChoice& choice) {
      LoadedKernel kernel = load_kernel({traits_of(problem), choice.config, gpu.arch}, gpu);
      plan->explanation.notes = joined_notes(plan->explanation.notes, kernel.notes);
      plan->explanation.kernels.push_back(reported(std::move(kernel.report), choice));
      return BuiltKernel{choice.config, std::move(kernel.kernel)};
    }));
    if (pass == KernelPass::dq_dk_dv) scratch = scratch_for(problem, built.back().config);
  }
  if (needs_delta(gradients)) plan->scratch_bytes = scratch.bytes(problem);
  for (BuiltKernel& step : built)
    plan->steps.push_back(backward_step(problem, step.config, std::move(step.kernel), scratch));
  return BackwardPlan(std::move(plan));
}

void Context::attention_backward(const AttentionProblem& problem, const BackwardArgs& args,
                                 Stream stream) try {
  require_valid_backward({problem, {}});
  BackwardOperands operands = backward_operands_of(problem, args);
  const PlannedProblem p(problem.normalized(), options_kept_by(problem, operands));
  const Gradients gradients = given_gradients(args);
  const int ordinal = p.batch > 0 ? current_device() : 0;
  auto plan = impl_->backward_plans.find({{p, ordinal}, gradients});
  if (!plan) {
    std::vector<Violation> found = violations_of(p, gradients, args, operands);
    if (!found.empty()) throw InvalidRequest(std::move(found));
    if (p.batch == 0) return;
    if (ordinal != kInterpreterDevice && is_capturing(stream)) throw_capturing(p);
    plan = impl_->backward_plan(p, ordinal, gradients, std::string(reason_for(p)));
  }
  operands.set_workspace_bytes(plan->workspace_bytes());
  plan->impl().run(args, operands, stream);
} catch (...) {
  rethrow_as_error();
}

BackwardPlan Context::backward_plan(const AttentionProblem& problem, int device, const Gradients& gradients,
                                    const PlanOptions& options) try {
  const PlannedProblem planned(problem, options);
  require_valid_backward(planned, gradients);
  return impl_->backward_plan(planned.normalized(), device == -1 ? current_device() : device, gradients, "");
} catch (...) {
  rethrow_as_error();
}

void attention_backward(const AttentionProblem& problem, const BackwardArgs& args, Stream stream) {
  Context::default_context().attention_backward(problem, args, stream);
}

}  // namespace fa2
