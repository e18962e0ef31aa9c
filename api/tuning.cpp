// The searches of a Context, and the passes that they measure.
#include <api/boundary.h>
#include <api/context.h>
#include <autotune/candidates.h>
#include <autotune/tuner.h>
#include <operation/rules/validate.h>
#include <planning/backward.h>
#include <planning/forward.h>
#include <planning/trials/gpu_trial.h>

#include <algorithm>
#include <thread>

namespace fa2 {
namespace {

constexpr int kMostCompileThreads = 8;

TunerOptions options_of(const Settings& settings, TuneScope scope, std::size_t candidates) {
  TunerOptions options;
  options.budget_seconds = settings.tune_budget_seconds;
  if (scope == TuneScope::all) options.finalists = candidates;
  options.compile_threads =
      std::min(kMostCompileThreads, static_cast<int>(std::thread::hardware_concurrency()));
  return options;
}

void require_no_promise(const AttentionProblem& problem) {
  if (problem.batch_invariant)
    throw InvalidRequest(
        {{"batch_invariant", "true", "must be false: such a problem ignores tuning records"}});
}

/// Returns the GPU on which to tune a valid problem. @throws InvalidRequest, Unavailable.
const Device& require_measurable(const PlannedProblem& problem, KernelPass pass, int ordinal) {
  if (!is_measurable(problem, pass)) {
    const char* const sizes = has_output(problem) ? "seqlen_k" : "batch * seqlen_q";
    throw InvalidRequest({{sizes, "0", "must be at least 1: there is nothing to measure"}});
  }
  const Device& gpu = device(ordinal == -1 ? current_device() : ordinal);
  if (gpu.arch.interpreted)
    throw Unavailable("there is no GPU to measure on: the time of an interpreted kernel is meaningless");
  return gpu;
}

}  // namespace

bool is_measurable(const PlannedProblem& problem, KernelPass pass) {
  return has_output(problem) && (pass == KernelPass::forward || problem.seqlen_k > 0);
}

Search Context::Impl::search_on(const Device& gpu, const PlannedProblem& problem, KernelPass pass,
                                TuneScope scope) {
  if (gpu.arch.interpreted || !is_measurable(problem, pass)) return {};
  return [this, &gpu, pass, scope](const PlannedProblem& p) {
    const std::vector<KernelConfig> candidates = search_candidates(p, gpu.arch, scope, pass);
    GpuTrial trial(p, gpu, candidates, kernels);
    return search(candidates, trial, options_of(settings, scope, candidates.size()));
  };
}

TuneReport Context::tune(const AttentionProblem& problem, int device, TuneScope scope,
                         const PlanOptions& options) try {
  const PlannedProblem planned(problem, options);
  require_valid(planned);
  require_no_promise(problem);
  const Device& gpu = require_measurable(planned.normalized(), KernelPass::forward, device);
  const Target target = target_of(gpu);
  const PlannedProblem p = tuned_problem(planned.normalized(), target, impl_->chooser);
  impl_->lessons.stop();
  TuneReport report = impl_->chooser.tune(p, target, impl_->search_on(gpu, p, KernelPass::forward, scope));
  impl_->plans.clear();  // because their configs may be outdated now
  return report;
} catch (...) {
  rethrow_as_error();
}

std::vector<TuneReport> Context::tune_backward(const AttentionProblem& problem, int device,
                                               const Gradients& gradients, TuneScope scope,
                                               const PlanOptions& options) try {
  const PlannedProblem planned(problem, options);
  require_valid_backward(planned, gradients);
  require_no_promise(problem);
  const PlannedProblem p = planned.normalized();
  const Device& gpu = require_measurable(p, KernelPass::dq, device);
  impl_->lessons.stop();
  const Target target = target_of(gpu);
  std::vector<TuneReport> reports;
  for (const KernelPass pass : tuned_passes(p, gradients, target, impl_->chooser))
    reports.push_back(impl_->chooser.tune(p, target, impl_->search_on(gpu, p, pass, scope), pass));
  impl_->backward_plans.clear();
  return reports;
} catch (...) {
  rethrow_as_error();
}

}  // namespace fa2
