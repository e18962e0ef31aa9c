// Chooses up to six kernels, which share one scratch.
#include <generator/config_space.h>
#include <generator/kernels/score_tile_rules.h>
#include <planning/backward.h>
#include <planning/capture_sums.h>
#include <planning/key_map.h>
#include <planning/step_request.h>
#include <planning/text_params.h>
#include <runtime/log.h>
#include <runtime/parallel.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace fa2 {
namespace {

constexpr const char* kBitwiseCaptures =
    "gradients of captures are summed in fixed point, which takes three launches and 8 bytes of the stream's "
    "memory per element";

bool needs_delta(const Gradients& gradients) {
  return gradients.dq || gradients.dk || gradients.d_sinks || gradients.d_captures;
}

/// Returns whether separate kernels may replace a fused one, which must then not be pinned.
bool may_be_separate(const Planner& planner, const Gradients& gradients) {
  const auto is_replaceable = [&](KernelPass pass) { return sums_dq(pass) && !planner.chooser.pins(pass); };
  return std::ranges::any_of(backward_passes(planner.problem, gradients, planner.target, planner.chooser),
                             is_replaceable);
}

/// Loads the kernels of chosen configs. That of dq_convert, whose choice is ignored, goes with the one before.
std::vector<LoadedKernel> load_all(const Planner& planner, const std::vector<KernelPass>& passes,
                                   const std::vector<ConfigChoice>& choices) {
  std::vector<LoadedKernel> kernels(passes.size());
  // At once, because each may have to be compiled. The interpreter's compiler asks the calling thread whether to stop.
  const int threads = planner.target.arch.interpreted ? 1 : usable_cores();
  for_each_index(passes.size(), threads, [&](std::size_t i) {
    if (passes[i] == KernelPass::dq_convert) return;
    kernels[i] = planner.pick_first(choices[i]);
    if (i + 1 < passes.size() && passes[i + 1] == KernelPass::dq_convert)
      kernels[i + 1] = planner.pick(conversion_of(kernels[i].report.config));
  });
  return kernels;
}

std::vector<LoadedKernel> kernels_of(const Planner& planner, const Gradients& gradients,
                                     BackwardKernels wanted) {
  const auto choice_of = [&](KernelPass pass) {
    if (gradients.determinism == Determinism::bitwise)
      return planner.chooser.fixed(planner.problem, planner.target, pass);
    return planner.choose(pass);
  };
  std::vector<KernelPass> passes =
      backward_passes(planner.problem, gradients, planner.target, planner.chooser, wanted);
  std::vector<ConfigChoice> choices;
  for (const KernelPass pass : passes)
    choices.push_back(pass == KernelPass::dq_convert ? ConfigChoice() : choice_of(pass));
  const auto adds = [&](const KernelConfig& config) {
    return score_tile_rules::adds_bias_gradient(planner.problem, config);
  };
  // A fused kernel may make the gradients of captures too, unless it does not compile.
  const bool is_shared = !passes.empty() && passes.back() == KernelPass::d_captures &&
                         std::ranges::any_of(choices, adds, &ConfigChoice::config);
  const ConfigChoice of_captures = is_shared ? choices.back() : ConfigChoice();
  if (is_shared) passes.pop_back();
  std::vector<LoadedKernel> kernels = load_all(planner, passes, choices);
  const auto config_of = [](const LoadedKernel& kernel) { return kernel.report.config; };
  if (is_shared && std::ranges::none_of(kernels, adds, config_of))
    kernels.push_back(planner.pick_first(of_captures));
  const auto has_map = [](const LoadedKernel& kernel) { return kernel.report.config.key_map != 0; };
  if (const auto reader = std::ranges::find_if(kernels, has_map); reader != kernels.end())
    kernels.insert(kernels.begin(), planner.pick(key_map_choice(reader->report.config)));
  return kernels;
}

BackwardScratch scratch_of(const Planner& planner, const std::vector<LoadedKernel>& kernels, int sms) {
  for (const LoadedKernel& kernel : kernels) {
    if (sums_dq(pass_of(kernel.report.config)))
      return scratch_for(planner.problem, kernel.report.config, sms);
  }
  return scratch_for(planner.problem);
}

}  // namespace

bool owns_keys(KernelPass pass) {
  return pass == KernelPass::dk_dv || pass == KernelPass::dk || pass == KernelPass::dv || sums_dq(pass);
}

bool has_tiles(const AttentionProblem& p, KernelPass pass) {
  if (pass == KernelPass::d_sinks) return p.batch > 0;
  if (pass == KernelPass::d_captures && p.seqlen_k == 0) return false;
  return p.batch > 0 && (owns_keys(pass) ? p.seqlen_k : p.seqlen_q) > 0;
}

Step backward_step(const AttentionProblem& problem, const KernelConfig& config,
                   std::shared_ptr<const Kernel> kernel, const BackwardScratch& scratch) {
  Step step = kind_of(config).make_step(
      {.problem = problem, .config = config, .kernel = std::move(kernel), .scratch = scratch});
  set_texts(step, problem);
  return step;
}

Gradients kept_by(const AttentionProblem& problem, Gradients gradients) {
  if (problem.batch_invariant) gradients.determinism = Determinism::bitwise;
  return gradients;
}

std::vector<KernelPass> backward_passes(const PlannedProblem& problem, const Gradients& gradients,
                                        const Target& target, const ConfigChooser& chooser,
                                        BackwardKernels kernels) {
  const auto can = [&](KernelPass pass) { return chooser.has_kernel(problem, target, pass); };
  std::vector<KernelPass> passes;
  if (needs_delta(gradients)) passes.push_back(KernelPass::delta);
  const KernelPass fused =
      gradients.determinism == Determinism::fastest ? KernelPass::dq_dk_dv : KernelPass::ordered_dq_dk_dv;
  const bool fuses = kernels == BackwardKernels::fused && gradients.dq && gradients.dk && gradients.dv;
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
  if (gradients.d_captures) passes.push_back(KernelPass::d_captures);
  std::erase_if(passes, [&](KernelPass pass) { return !has_tiles(problem, pass); });
  return passes;
}

std::vector<KernelPass> tuned_passes(const PlannedProblem& problem, const Gradients& gradients,
                                     const Target& target, const ConfigChooser& chooser) {
  if (gradients.determinism == Determinism::bitwise)
    throw InvalidRequest(
        {{"determinism", "bitwise", "must be fastest: bitwise gradients ignore tuning records"}});
  std::vector<KernelPass> passes = backward_passes(problem, gradients, target, chooser);
  std::erase_if(passes,
                [&](KernelPass pass) { return !can_be_tuned(traits_of(problem), target.arch, pass); });
  return passes;
}

std::vector<LoadedKernel> backward_kernels(const Planner& planner, const Gradients& gradients,
                                           std::string& notes) {
  if (gradients.d_captures && gradients.determinism == Determinism::bitwise)
    notes = joined_notes(notes, kBitwiseCaptures);
  if (!may_be_separate(planner, gradients)) return kernels_of(planner, gradients, BackwardKernels::fused);
  std::exception_ptr failure;
  std::string note = "separate dQ and dK/dV kernels run instead of the fused one: ";
  try {
    return kernels_of(planner, gradients, BackwardKernels::fused);
  } catch (const Error& error) {
    if (!is_obstacle(error)) throw;
    failure = std::current_exception();
    note += summary(error);
  }
  try {
    std::vector<LoadedKernel> kernels = kernels_of(planner, gradients, BackwardKernels::separate);
    warn_once(to_string(planner.problem) + note, to_string(planner.problem) + ": " + note);
    notes = joined_notes(notes, note);
    return kernels;
  } catch (const Error& error) {
    if (!is_obstacle(error)) throw;
    std::rethrow_exception(failure);
  }
}

Plan plan_backward(const Planner& planner, const Gradients& gradients, std::string notes) {
  const int sms = planner.usable_sms();
  std::vector<LoadedKernel> kernels = backward_kernels(planner, gradients, notes);
  const BackwardScratch scratch = scratch_of(planner, kernels, sms);
  Plan plan;
  plan.problem = planner.problem;
  plan.gradients = gradients;
  plan.explanation = explanation_of(planner, kernels, std::move(notes));
  std::vector<Step> steps;
  for (LoadedKernel& kernel : kernels) {
    const KernelConfig& config = kernel.report.config;
    if (config.kernel == KernelId::key_map) continue;
    steps.push_back(backward_step(plan.problem, config, std::move(kernel.kernel), scratch));
    if (config.key_map != 0)
      add_key_map(plan, plan.problem, steps.back(), std::move(kernels.front().kernel),
                  scratch.bytes(plan.problem));
  }
  for (Step& step : steps) {
    if (pass_of(step.config) != KernelPass::d_captures || gradients.determinism == Determinism::fastest) {
      plan.add(std::move(step));
      continue;
    }
    for (Step& part : bitwise_capture_steps(step)) plan.add(std::move(part));
  }
  return plan;
}

}  // namespace fa2
