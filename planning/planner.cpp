// Gets the kernels of choices, and reports them.
#include <fa2/errors.h>
#include <fmt/format.h>
#include <generator/head_packing.h>
#include <planning/planner.h>

#include <utility>

namespace fa2 {

Planner Planner::of(const PlannedProblem& other) const {
  Planner planner = *this;
  planner.problem = other;
  return planner;
}

int Planner::usable_sms() const {
  const int sms = target.sm_count, margin = problem.sm_margin;
  if (sms == 0) return 0;
  if (margin >= sms) {
    throw InvalidRequest({{"sm_margin", fmt::format("{}", margin),
                           fmt::format("must be in 0..{}: the device has {} SMs", sms - 1, sms)}});
  }
  return sms - margin;
}

LoadedKernel Planner::pick(const ConfigChoice& choice) const {
  LoadedKernel kernel = get({traits_of(problem), choice.config, target.arch});
  kernel.report.config = choice.config;
  kernel.report.config_origin = choice.origin;
  kernel.report.config_reason = choice.reason;
  kernel.report.is_persistent = is_persistent(choice.config);
  kernel.report.heads_per_tile = head_packing(problem, choice.config).heads;
  return kernel;
}

LoadedKernel Planner::pick_first(const ConfigChoice& choice) const {
  return build_first(
      problem, choice, [&] { return alternatives(problem, choice); },
      [&](const ConfigChoice& possible) { return pick(possible); });
}

Explanation explanation_of(const Planner& planner, const std::vector<LoadedKernel>& kernels,
                           std::string notes) {
  Explanation explanation{.problem = planner.problem,
                          .options = planner.problem,
                          .arch = std::string(planner.target.arch.name),
                          .device = planner.target.device,
                          .kernels = {},
                          .notes = std::move(notes)};
  for (const LoadedKernel& kernel : kernels) {
    explanation.kernels.push_back(kernel.report);
    explanation.notes = joined_notes(explanation.notes, kernel.notes);
    explanation.notes = joined_notes(explanation.notes, margin_note(planner.problem, kernel.report.config));
  }
  return explanation;
}

std::string margin_note(const AttentionProblem& problem, const KernelConfig& config) {
  if (problem.sm_margin == 0 || is_persistent(config)) return {};
  return fmt::format("sm_margin = {} does not limit {}, which launches a block per tile: any SM may run one",
                     problem.sm_margin, to_string(config.kernel));
}

std::string joined_notes(const std::string& notes, const std::string& more) {
  return notes + (notes.empty() || more.empty() ? "" : "\n") + more;
}

}  // namespace fa2
