// Context's backward: plans of several kernels.
#include <api/backward_plan.h>
#include <api/boundary.h>
#include <api/context.h>
#include <api/plan_log.h>
#include <operation/rules/validate.h>
#include <planning/backward_step.h>
#include <runtime/graph.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace fa2 {
namespace {

/// All that is wrong with the problem, its options, and of it for a backward.
std::vector<Violation> all_violations_of(const PlannedProblem& problem, const Gradients& gradients) {
  std::vector<Violation> found = violations_of(problem);
  return found.empty() ? violations_of_backward(problem, gradients) : found;
}

struct BuiltKernel {
  KernelConfig config;
  std::shared_ptr<const Kernel> kernel;
};

/// Without kernels yet.
Explanation explanation_of(const PlannedProblem& problem, const Target& target, std::string notes) {
  return {.problem = problem,
          .options = problem,
          .arch = std::string(target.arch.name),
          .device = target.device,
          .kernels = {},
          .notes = std::move(notes)};
}

void add(KernelReport kernel, const std::string& notes, const ConfigChoice& choice,
         Explanation& explanation) {
  explanation.notes = joined_notes(explanation.notes, notes);
  explanation.kernels.push_back(reported(std::move(kernel), choice));
}

bool needs_delta(const Gradients& gradients) {
  return gradients.dq || gradients.dk || gradients.d_sinks;
}

}  // namespace

void require_valid_backward(const PlannedProblem& problem, const Gradients& gradients) {
  std::vector<Violation> found = all_violations_of(problem, gradients);
  if (!found.empty()) throw InvalidRequest(std::move(found));
}

Gradients kept_by(const AttentionProblem& problem, Gradients gradients) {
  if (problem.batch_invariant) gradients.determinism = Determinism::bitwise;
  return gradients;
}

std::vector<KernelPass> Context::Impl::backward_passes(const PlannedProblem& problem,
                                                       const Gradients& gradients, const Target& target,
                                                       Passes wanted) const {
  const auto can = [&](KernelPass pass) { return chooser.has_kernel(problem, target, pass); };
  std::vector<KernelPass> passes;
  if (needs_delta(gradients)) passes.push_back(KernelPass::delta);
  const KernelPass fused =
      gradients.determinism == Determinism::fastest ? KernelPass::dq_dk_dv : KernelPass::ordered_dq_dk_dv;
  const bool fuses = wanted == Passes::fewest && gradients.dq && gradients.dk && gradients.dv;
  if (fuses && has_tiles(problem, fused) && can(fused)) {
    passes.insert(passes.end(), {fused, KernelPass::dq_convert});
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

bool Context::Impl::may_be_apart(const PlannedProblem& problem, const Gradients& gradients,
                                 const Target& target) const {
  if (settings.pinned && sums_dq(pass_of(*settings.pinned))) return false;
  const std::vector<KernelPass> passes = backward_passes(problem, gradients, target);
  return std::ranges::any_of(passes, sums_dq);
}

BackwardPlan Context::Impl::backward_plan(const PlannedProblem& problem, int ordinal,
                                          const Gradients& gradients, const std::string& notes) {
  return backward_plans.get({{problem, ordinal}, gradients}, [&] {
    BackwardPlan plan = make_backward_plan(problem, ordinal, gradients, notes);
    log_plan("backward plan", plan.explain());
    return plan;
  });
}

BackwardPlan Context::Impl::make_backward_plan(const PlannedProblem& problem, int ordinal,
                                               const Gradients& gradients, const std::string& notes) {
  const Device& gpu = device(ordinal);
  return build_summing_or_apart(problem, gradients, target_of(gpu), notes,
                                [&](Passes passes, const std::string& all) {
                                  return backward_plan_with(problem, gpu, gradients, passes, all);
                                });
}

BackwardPlan Context::Impl::backward_plan_with(const PlannedProblem& problem, const Device& gpu,
                                               const Gradients& gradients, Passes passes,
                                               const std::string& notes) {
  const Target target = target_of(gpu);
  auto plan = std::make_shared<BackwardPlan::Impl>();
  plan->problem = problem;
  plan->gradients = gradients;
  plan->device = gpu.ordinal;
  plan->checks_tables = checks_tables(problem, gpu);
  plan->scratch = scratch_pool(gpu);
  plan->explanation = explanation_of(problem, target, notes);
  std::vector<BuiltKernel> built;
  BackwardScratch scratch = scratch_for(problem);
  const auto search_of = [&](KernelPass pass) { return search_on(gpu, problem, pass, TuneScope::likely); };
  build_backward(problem, gradients, passes, target, search_of, [&](const ConfigChoice& choice) {
    LoadedKernel kernel = load_kernel({traits_of(problem), choice.config, gpu.arch}, gpu);
    add(std::move(kernel.report), kernel.notes, choice, plan->explanation);
    built.push_back({choice.config, std::move(kernel.kernel)});
    if (sums_dq(pass_of(choice.config))) scratch = scratch_for(problem, choice.config);
  });
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
  const Gradients gradients = kept_by(problem, given_gradients(args));
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
  const Gradients computed = kept_by(problem, gradients);
  const auto search_of = [](KernelPass) { return Search(); };
  const auto explained = [&](Impl::Passes passes, const std::string& notes) {
    Explanation explanation = explanation_of(p, target, notes);
    impl_->build_backward(p, computed, passes, target, search_of, [&](const ConfigChoice& choice) {
      const KernelSource source = render({traits_of(p), choice.config, target.arch});
      const CachedKernel kernel = impl_->kernels.get(source);
      add(report_of(source, kernel), kernel.notes, choice, explanation);
    });
    return explanation;
  };
  return impl_->build_summing_or_apart(p, computed, target, "", explained);
} catch (...) {
  rethrow_as_error();
}

void attention_backward(const AttentionProblem& problem, const BackwardArgs& args, Stream stream) {
  Context::default_context().attention_backward(problem, args, stream);
}

}  // namespace fa2
